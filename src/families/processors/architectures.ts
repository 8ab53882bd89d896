import type { FamilyName } from '../families.ts'
import { wordList } from '../word-list.ts'
import type { Placeholder, ProcessorReader } from './image-processing.ts'
import * as squares from './squares.ts'
import * as tiles from './tiles.ts'

/** The support for models of an architecture, as in `architectures` of `config.json`. */
export interface Architecture {
  readonly family: FamilyName | null
  /** How images are processed, or why they are not served. */
  readonly images: ProcessorReader | string
}

const marked = (before: string, target: string, after: string): Placeholder => ({ before, target, after })
const VISION = marked('<|vision_start|>', '<|image_pad|>', '<|vision_end|>')

const served = (family: FamilyName | null, images: ProcessorReader): Architecture => ({ family, images })

const OWN_RULE = 'how its image processor sizes images is not known here'
const NO_IMAGES = 'it takes no images'
const NO_SOUND = 'it takes sound only, which the servers are not asked about'
const ENCODER_DECODER = 'its prompt is that of an encoder beside a decoder, which is not known here'

const refused = (names: string, reason: string, family: FamilyName | null = null) =>
  Object.fromEntries(wordList(names).map((name): [string, Architecture] => [name, { family, images: reason }]))

/** Architectures whose images are served. */
const SERVED: Readonly<Record<string, Architecture>> = {
  Qwen2VLForConditionalGeneration: served('qwen2-vl', squares.qwenImages),
  Qwen2_5_VLForConditionalGeneration: served('qwen2.5-vl', squares.qwenImages),
  Qwen3VLForConditionalGeneration: served('qwen3-vl', squares.qwenImages),
  Qwen3VLMoeForConditionalGeneration: served('qwen3-vl', squares.qwenImages),
  Qwen3_5ForConditionalGeneration: served('qwen3.5', squares.qwenImages),
  Qwen3_5MoeForConditionalGeneration: served('qwen3.5', squares.qwenImages),
  Gemma3ForConditionalGeneration: served('gemma3', squares.soughtSquares),
  Gemma3nForConditionalGeneration: served('gemma3n', squares.mobileSquares),
  Gemma4ForConditionalGeneration: served('gemma4', squares.filledImages),
  Gemma4UnifiedForConditionalGeneration: served('gemma4', squares.filledImages),
  InternVLChatModel: served('internvl', tiles.chatTiles),
  SkyworkR1VChatModel: served(null, tiles.chatTiles),
  InternVLForConditionalGeneration: served('internvl', tiles.contextTiles),
  InternS1ForConditionalGeneration: served('internvl', tiles.contextTiles),
  Glm4vForConditionalGeneration: served(
    'glm4v',
    squares.pixelImages(marked('<|begin_of_image|>', '<|image|>', '<|end_of_image|>'), 2),
  ),
  Mistral3ForConditionalGeneration: served('mistral', squares.longestEdgeImages('[IMG]', 1)),
  LightOnOCRForConditionalGeneration: served('lighton-ocr', squares.longestEdgeImages('<|image_pad|>', 0)),
  MolmoForCausalLM: served('molmo', tiles.insertedTiles),
  Molmo2ForConditionalGeneration: served('molmo2', tiles.pooledTiles),
  Llama4ForConditionalGeneration: served('llama', tiles.separatedTiles),
  IsaacForConditionalGeneration: served('isaac', squares.patchRangeImages),
  LlavaForConditionalGeneration: served('llava', squares.clipSquares),
  LlavaNextForConditionalGeneration: served('llava', tiles.pinpointTiles(36)),
  LlavaOnevisionForConditionalGeneration: served('llava', tiles.pinpointTiles(9)),
  Idefics3ForConditionalGeneration: served('smolvlm', tiles.namedTiles),
  SmolVLMForConditionalGeneration: served('smolvlm', tiles.namedTiles),
  Cohere2VisionForConditionalGeneration: served(null, tiles.lineBreakTiles),
  KimiVLForConditionalGeneration: served('kimi-vl', squares.limitedImages),
  DotsOCRForCausalLM: served('dots-ocr', squares.pixelImages(marked('<|img|>', '<|imgpad|>', '<|endofimg|>'))),
  PaddleOCRVLForConditionalGeneration: served(
    'paddle-ocr',
    squares.pixelImages(marked('<|IMAGE_START|>', '<|IMAGE_PLACEHOLDER|>', '<|IMAGE_END|>')),
  ),
  KeyeForConditionalGeneration: served(null, squares.pixelImages(VISION)),
  KeyeVL1_5ForConditionalGeneration: served(null, squares.pixelImages(VISION)),
  Exaone4_5_ForConditionalGeneration: served(
    null,
    squares.pixelImages(marked('<vision>', '<|image_pad|>', '</vision>')),
  ),
  OpenCUAForConditionalGeneration: served(null, squares.pixelImages({ target: '<|media_placeholder|>' })),
  Qwen3OmniMoeForConditionalGeneration: served('qwen3-vl', squares.pixelImages(VISION)),
}

/** The same models under other names. */
const ALIASES: Readonly<Record<string, string>> = {
  Glm4vMoeForConditionalGeneration: 'Glm4vForConditionalGeneration',
}

/** The other names in `_MULTIMODAL_MODELS` of vLLM's `model_executor/models/registry.py`. */
const REFUSED: Readonly<Record<string, Architecture>> = {
  ...refused(
    `
      AudioFlamingo3ForConditionalGeneration FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration
      FunAudioChatForConditionalGeneration GlmAsrForConditionalGeneration GraniteSpeechForConditionalGeneration
      GraniteSpeechPlusForConditionalGeneration MiDashengLMModel MoonshotKimiaForCausalLM MossAudioModel
      MossTranscribeDiarizeForConditionalGeneration Qwen3ASRForConditionalGeneration Qwen3ASRRealtimeGeneration
      VoxtralRealtimeGeneration
    `,
    NO_SOUND,
  ),
  ...refused('Qwen2AudioForConditionalGeneration', NO_SOUND, 'qwen2-audio'),
  ...refused('UltravoxModel', NO_SOUND, 'ultravox'),
  ...refused('VoxtralForConditionalGeneration', NO_SOUND, 'voxtral'),
  ...refused(
    `
      CohereAsrForConditionalGeneration NemotronParseForConditionalGeneration RadioMBartPrefixForCausalLM
      WhisperForConditionalGeneration
    `,
    ENCODER_DECODER,
  ),
  ...refused(
    'PixtralForConditionalGeneration',
    "vLLM must read the model in Hugging Face's format: start it with --config-format hf --tokenizer-mode hf --load-format hf",
    'mistral',
  ),
  ...refused(
    'PaliGemmaForConditionalGeneration',
    'vLLM ends every prompt with a line break for it, also where a reply goes on',
    'paligemma',
  ),
  ...refused('OpenVLAForActionPrediction', `${NO_IMAGES} that a conversation is about: it moves a robot`),
  ...refused('DeepseekOCRForCausalLM DeepseekOCR2ForCausalLM UnlimitedOCRForCausalLM', OWN_RULE, 'deepseek-ocr'),
  ...refused('Lfm2VlForConditionalGeneration', OWN_RULE, 'lfm2-vl'),
  ...refused('KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration', OWN_RULE, 'kimi-vl'),
  ...refused('Phi4ForCausalLMV Phi4MMForCausalLM', OWN_RULE, 'phi4'),
  ...refused('GLM4VForCausalLM GlmOcrForConditionalGeneration', OWN_RULE),
  ...refused(
    `
      MiniCPMO MiniCPMV MiniCPMOcrForConditionalGeneration MiniCPMV4_6ForConditionalGeneration
      MiniCPMV4_7ForConditionalGeneration
    `,
    OWN_RULE,
    'minicpm-v',
  ),
  ...refused('Qwen2_5OmniModel Qwen2_5OmniForConditionalGeneration', OWN_RULE, 'qwen2.5-omni'),
  ...refused(
    `
      Alpamayo2Super AriaForConditionalGeneration BagelForConditionalGeneration BeeForConditionalGeneration
      BailingMoeV3VLForConditionalGeneration Blip2ForConditionalGeneration CohereCompassForConditionalGeneration
      Cosmos3ForConditionalGeneration Cosmos3EdgeForConditionalGeneration DeepseekVLV2ForCausalLM
      DeepseekV4ForConditionalGeneration DeepseekV41ForCausalLM DiffusionGemmaForBlockDiffusion Dots3NoteForCausalLM
      Eagle2_5_VLForConditionalGeneration Ernie4_5_VLMoeForConditionalGeneration Glm5NextForConditionalGeneration
      Granite4VisionForConditionalGeneration H2OVLChatModel HfMoondream InternS1ProForConditionalGeneration
      InternS2MobiusForConditionalGeneration InternS2PreviewForConditionalGeneration KananaVForConditionalGeneration
      Llama_Nemotron_Nano_VL LlavaNextVideoForConditionalGeneration LlavaOnevision2ForConditionalGeneration
      MiMoV2OmniForCausalLM MiniMaxM3SparseForConditionalGeneration Moondream3ForCausalLM
      MuseGlimmerForConditionalGeneration MuseSparkForConditionalGeneration NVLM_D NemotronH_Nano_Omni_Reasoning_V3
      NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3
      OpenPanguVLForConditionalGeneration Ovis Ovis2_5 Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM Phi3VForCausalLM
      QianfanOCRForConditionalGeneration Qwen4ExpForConditionalGeneration RForConditionalGeneration
      Step3VLForConditionalGeneration Step3p7ForConditionalGeneration Step5ForConditionalGeneration
      StepVLForConditionalGeneration
    `,
    OWN_RULE,
  ),
}

/** Null for an architecture that is not among vLLM's multimodal ones. */
export function architectureOf(name: string): Architecture | null {
  const known = ALIASES[name] ?? name
  return Object.hasOwn(SERVED, known) ? SERVED[known]! : Object.hasOwn(REFUSED, known) ? REFUSED[known]! : null
}
