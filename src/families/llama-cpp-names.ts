import { wordList } from './word-list.ts'

/**
 * The release of llama.cpp that these names are from. A test compares it with the one that set-up fetches, and the
 * names with its source.
 */
export const LLAMA_CPP_NAMES = '0.4.0'

/** `PROJECTOR_TYPE_NAMES` in `tools/mtmd/clip-impl.h`. */
export const PROJECTORS = wordList(`
  mlp ldp ldpv2 resampler adapter qwen2vl_merger qwen2.5vl_merger qwen3vl_merger step3vl gemma3 gemma3nv gemma3na
  gemma4v gemma4a gemma4uv gemma4ua phi4 idefics3 pixtral ultravox internvl llama4 qwen2a qwen3a glma qwen2.5o voxtral
  meralion musicflamingo lfm2 kimivl paddleocr lightonocr cogvlm janus_pro dots_ocr dots3note_v dots3note_a
  deepseekocr deepseekocr2 deepseek4v lfm2a glm4v youtuvl yasa2 kimik25 nemotron_v2_vl exaone4_5 hunyuanvl minicpmv4_6
  granite_speech mimovl minimax_m3 granite4_vision mimo_audio parakeet qwen3tts_spkenc qwen3tts_gen pockettts_spkenc
  pockettts_gen muse-glimmer
`)

/** `LLM_ARCH_NAMES` in `src/llama-arch.cpp`. */
export const ARCHITECTURES = wordList(`
  clip llama llama4 deci falcon grok gpt2 gptj gptneox mpt baichuan starcoder refact bert modern-bert nomic-bert
  nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert bloom stablelm qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe
  qwen3next qwen3vl qwen3vlmoe qwen35 qwen35moe qwen4exp phi2 phi3 phimoe plamo plamo2 plamo3 codeshell orion
  internlm2 minicpm minicpm3 gemma gemma2 gemma3 gemma3n gemma4 gemma4-assistant gemma-embedding starcoder2 mamba
  mamba2 jamba falcon-h1 xverse command-r cohere2 cohere2moe dbrx olmo olmo2 olmoe muse-glimmer openelm arctic
  deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4 chatglm glm4 glm4moe glm-dsa bitnet t5 t5encoder jais jais2
  nemotron nemotron_h nemotron_h_moe exaone exaone4 exaone-moe rwkv6 rwkv6qwen2 rwkv7 arwkv7 granite granitemoe
  granitehybrid graniteswitch granite_swa chameleon wavtokenizer-dec plm bailingmoe bailingmoe2 bailingmoe3 dots1
  dots3note arcee afmoe laguna ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl hy_v3 smollm3 gpt-oss lfm2
  lfm2moe dream smallthinker llada llada-moe seed_oss grovemoe apertus minimax-01 minimax-m2 minimax-m3 cogvlm rnd1
  pangu-embedded mistral3 eagle3 dflash mistral4 paddleocr mimo2 step35 llama-embed maincoder kimi-linear kimi-k3
  talkie mellum nanbeige qwen3tts pockettts
`)

const NO_GRAPH = 'has no implementation in llama.cpp'
const OTHER_RATE = 'takes sound at 24 kHz, and sound is prepared at 16 kHz'
const SPEAKS = 'serves to make speech, which is not supported'

/** Projectors of llama.cpp that are not used here, and why. */
export const UNUSED_PROJECTORS: Readonly<Record<string, string>> = {
  deepseek4v: 'makes images whose tokens depend on where they stand in the prompt, which is not supported',
  gemma3na: NO_GRAPH,
  mimo_audio: OTHER_RATE,
  qwen3tts_spkenc: SPEAKS,
  qwen3tts_gen: SPEAKS,
  pockettts_spkenc: SPEAKS,
  pockettts_gen: SPEAKS,
}

const ENCODES = 'reads a text with an encoder of its own, which is not supported'
const DIFFUSES = 'writes by diffusion, which is not supported'
const DRAFTS = 'only drafts what another model writes'
const SOUNDS = 'makes sound, and no text'

/** Architectures whose models make embeddings or rate documents, and generate no text. */
export const EMBEDDING_ARCHITECTURES = wordList(`
  bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding llama-embed
`)

/** Architectures of llama.cpp that are not served here, and why. */
export const UNUSED_ARCHITECTURES: Readonly<Record<string, string>> = {
  clip: 'is an encoder of images or sound',
  t5encoder: ENCODES,
  t5: ENCODES,
  dream: DIFFUSES,
  llada: DIFFUSES,
  'llada-moe': DIFFUSES,
  rnd1: DIFFUSES,
  eagle3: DRAFTS,
  dflash: DRAFTS,
  'gemma4-assistant': DRAFTS,
  'wavtokenizer-dec': SOUNDS,
  qwen3tts: SOUNDS,
  pockettts: SOUNDS,
}

/** Why a projector cannot be used, as the end of a sentence; null if there is no known reason. */
export function projectorProblem(projector: string): string | null {
  return UNUSED_PROJECTORS[projector] ?? (PROJECTORS.includes(projector) ? null : unknown())
}

/** Why a model of this architecture cannot be served, as the end of a sentence; null if there is no known reason. */
export function architectureProblem(architecture: string): string | null {
  return UNUSED_ARCHITECTURES[architecture] ?? null
}

/** Why a model of this architecture will probably not load, as the end of a sentence; null if llama.cpp knows it. */
export function architectureDoubt(architecture: string): string | null {
  return ARCHITECTURES.includes(architecture) ? null : unknown()
}

function unknown(): string {
  return `is unknown to llama.cpp ${LLAMA_CPP_NAMES}, which this release of Lookout uses; a later release may know it`
}
