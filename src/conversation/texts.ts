import type { Work } from '../inference/contract/work.ts'
import { invalidRequest } from '../lib/errors.ts'
import type { Path } from '../lib/param.ts'
import { branchOf, type Call } from './call.ts'
import { assembleChoices } from './reply/assembler.ts'
import type { ChoiceEvent } from './reply/reply.ts'
import { ReplyReader } from './reply/reply-reader.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { TextRequest } from './request/text-request.ts'

/**
 * Starts the completions of texts. They are numbered prompt by prompt. Resolves when the engine has admitted them.
 * @throws ApiError 400 for a model whose server takes only messages.
 */
export async function startTexts(request: TextRequest, call: Call): Promise<AsyncIterable<ChoiceEvent>> {
  const { model, organisation, signal } = call
  if (model.card.engine.type === 'openai') {
    throw invalidRequest(`The model '${model.id}' takes only messages: use /v1/chat/completions`, 'model')
  }
  const { prompts, choices: n, stops, streamed } = request
  const spec = new ReplySpec({}, model)
  const branches: Work['branches'][number][] = []
  // Sequential, so that a text that is too long is rejected before the others are counted.
  for (const [index, text] of prompts.entries()) {
    const param: Path = prompts.length === 1 ? ['prompt'] : ['prompt', index]
    // The client has written the whole prompt: no other's text is in it that a control token could end.
    const suffix = [{ type: 'text' as const, text, trusted: true }]
    branches.push(await branchOf({ param, suffix, spec, asked: { ...request, n } }, call))
  }
  const whole = !streamed && stops.length === 0 && branches.length === 1
  const generation = await model.engine.generate({ organisation, prefix: [], branches, whole }, signal)
  const completions = branches.flatMap(({ maxTokens }) =>
    Array.from({ length: n }, () => ({ readers: [verbatim()], maxTokens: maxTokens!, nothing: '' })),
  )
  return assembleChoices({ ...call, generation, completions, completionsOfBranch: n, stops })
}

function verbatim(): ReplyReader {
  return new ReplyReader({ thought: null, thinking: false, content: null })
}
