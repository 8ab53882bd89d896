import { z } from 'zod'
import { clientMap, jsonSchema } from '../../../http/wire/client-json.ts'
import { requests } from '../../../http/wire/components.ts'

/** OpenAI sets no limit. Here, every token of the reply is searched for each of them. */
const LONGEST_STOP = 500
const stopSequence = z.string().min(1).max(LONGEST_STOP)

/** Texts before which a reply ends. */
export function stopSequences(most: number) {
  return z.union([stopSequence, z.array(stopSequence).max(most)]).nullish()
}

/** A label of the request's user or purpose. It is accepted and ignored. */
const label = z.string().max(512).nullish()

/** A field that the server cannot honour. Clients may send null. */
function refused(advice = 'it is not supported') {
  return z.null(advice).optional()
}

const LIST = new Intl.ListFormat('en')

function only<const Value extends string | boolean>(...values: readonly [Value, ...Value[]]) {
  const verb = values.length === 1 ? 'is' : 'are'
  return z.literal(values, `only ${LIST.format(values.map(String))} ${verb} supported`).nullish()
}

/** Limits of OpenAI's API. */
const MOST_PAIRS = 16
const LONGEST_KEY = 64
const LONGEST_VALUE = 512

/** The metadata of OpenAI's API. */
export function pairs() {
  return clientMap(z.string().max(LONGEST_VALUE), {
    key: z.string().max(LONGEST_KEY, `expected keys of at most ${LONGEST_KEY} characters`),
    sizeProblem: (size) => (size > MOST_PAIRS ? `expected at most ${MOST_PAIRS} pairs` : null),
  })
}

const MOST_OPTIONS = 1000

/** A structure in the form that vLLM's servers accept. */
const structuredOutputs = requests
  .object('StructuredOutputs', {
    json: jsonSchema.optional(),
    regex: z.string().min(1).nullish(),
    choice: z.array(z.string().min(1)).min(1).max(MOST_OPTIONS).nullish(),
    json_object: only(true),
    grammar: refused(),
    structural_tag: refused(),
  })
  .refine(
    ({ json, regex, choice, json_object }) =>
      [json, regex, choice, json_object].filter((kind) => (kind ?? null) !== null).length === 1,
    "expected one of 'json', 'regex', 'choice' and 'json_object'",
  )

/** A constraint under another server's name. Ignoring it would leave the reply unconstrained. */
const constraint = refused('it is not supported; use structured_outputs')

/** Structures in the forms that other servers accept. */
export const constraints = {
  structured_outputs: structuredOutputs.nullish(),
  guided_json: constraint,
  guided_regex: constraint,
  guided_choice: constraint,
  guided_grammar: constraint,
  ebnf: constraint,
}

/** Variables of a model's chat template, as vLLM's servers accept them. Only the switch for thinking has an effect. */
const templateVariables = requests.object('ChatTemplateKwargs', {
  enable_thinking: z.boolean().nullish(),
  thinking: z.boolean().nullish().describe('The same, as some templates have it.'),
})

/** How videos are sampled, as vLLM's servers take it. */
const videoSampling = requests.object('VideoSampling', {
  fps: z.number().min(-1).nullish().describe('-1: as `num_frames` says, or the model.'),
  num_frames: z.int().min(-1).nullish().describe('The most frames, spread over the video; -1: every frame.'),
})
const mediaReading = requests.object('MediaIoKwargs', { video: videoSampling.nullish() })
/** The same for vLLM's processors, which sample only if they are told to. Other values have no effect. */
const mediaProcessing = requests.object('MmProcessorKwargs', {
  ...videoSampling.shape,
  do_sample_frames: z.boolean().nullish(),
})

/** Fields of OpenAI's chat completions that the contract does not have. */
export const openAiFields = {
  stop: stopSequences(4),
  seed: z.int().nullish(),
  user: label,
  safety_identifier: label,
  prompt_cache_key: label,
  metadata: pairs().nullish(),
  store: only(false),
  service_tier: only('auto', 'default', 'standard_only'),
  logit_bias: z.strictObject({}, 'only an empty one is supported').nullish(),
  modalities: z.array(z.literal('text', "only 'text' is supported")).max(1).nullish(),
  verbosity: only('medium'),
  audio: refused(),
  functions: refused('it is not supported; use tools'),
  function_call: refused('it is not supported; use tool_choice'),
  moderation: refused(),
  prediction: refused(),
  web_search_options: refused(),
  chat_template_kwargs: templateVariables.nullish().catch(undefined),
  media_io_kwargs: mediaReading.nullish(),
  mm_processor_kwargs: mediaProcessing.nullish().catch(undefined),
  ...constraints,
}

export const openAiStreamOptions = z.object({
  include_usage: z.boolean().nullish(),
  include_obfuscation: only(false),
})
