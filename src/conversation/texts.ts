import type { TextEvent } from '../inference/contract/generation.ts'
import type { Work } from '../inference/contract/work.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import type { Path } from '../lib/errors/param.ts'
import { branchOf, type Call } from './call/call.ts'
import { checkMaxTokens } from './call/capability-checks.ts'
import { assembleChoices } from './reply/assembler.ts'
import type { ChoiceEvent } from './reply/reply.ts'
import { ReplyReader } from './reply/reply-reader.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { constraintOf, type StructureChecker } from './reply/structure/structured-reply.ts'
import type { TextRequest } from './request/text-request.ts'

/**
 * Starts the completions of texts. They are numbered prompt by prompt. Resolves when the engine has admitted them.
 * @throws ApiError 400 for a model whose server accepts only messages, and for longer completions than the model
 * allows.
 */
export async function startTexts(
  request: TextRequest,
  call: Call,
  structures: StructureChecker,
): Promise<AsyncIterable<ChoiceEvent>> {
  const { model, organisation, signal } = call
  if (model.card.engine.type === 'openai') {
    throw invalidRequest(`The model '${model.id}' takes only messages: use /v1/chat/completions`, 'model')
  }
  checkMaxTokens(request, model)
  const { prompts, choices: n, stops, structure, streamed, echo, topLogProbs } = request
  const isLocal = model.card.engine.type === 'local'
  if (!isLocal && prompts.some((prompt) => typeof prompt !== 'string'))
    throw invalidRequest(`The model '${model.id}' runs on other servers and takes no token ids`, 'prompt')
  if (!isLocal && echo && topLogProbs !== null)
    throw invalidRequest(`The servers of the model '${model.id}' do not rate prompts`, 'logprobs')
  const spec = new ReplySpec({ bound: structure === null ? null : constraintOf(structure) }, model)
  call.onIgnored?.(spec.ignoredKeywords)
  const branches: Work['branches'][number][] = []
  // Sequential, so that a text that is too long is rejected before the others are counted.
  for (const [index, prompt] of prompts.entries()) {
    const param: Path = prompts.length === 1 ? ['prompt'] : ['prompt', index]
    // The client has written the whole prompt: there is no other text that a control token in it could end.
    const given = typeof prompt === 'string' ? { text: prompt } : { text: '', tokens: prompt }
    const suffix = [{ type: 'text' as const, ...given, trusted: true }]
    branches.push(await branchOf({ param, suffix, spec, asked: { ...request, n } }, call))
  }
  const echoes = echo ? await echoesOf(request, branches, call) : null
  const whole = !streamed && stops.length === 0 && branches.length === 1
  const generation = await model.engine.generate({ organisation, prefix: [], branches, whole }, signal)
  const completions = branches.flatMap(({ maxTokens }) =>
    Array.from({ length: n }, () => ({ readers: [verbatim()], maxTokens: maxTokens!, nothing: '' })),
  )
  const replies = assembleChoices({ ...call, generation, completions, completionsOfBranch: n, stops })
  const events = structures.checked(replies, structure, organisation)
  return echoes === null ? events : withEchoes(echoes, n, events)
}

type Echo = Pick<TextEvent, 'text' | 'logProbs'>

/** The prompts as the beginnings of their completions. @throws ApiError as `read` does. */
async function echoesOf(
  { prompts, topLogProbs }: TextRequest,
  branches: Work['branches'],
  { model, organisation, signal }: Call,
): Promise<readonly Echo[]> {
  if (topLogProbs === null && prompts.every((prompt) => typeof prompt === 'string'))
    return prompts.map((text) => ({ text }))
  const questions = branches.map(({ param, suffix }) => {
    return { suffix, replies: [], topLogProbs: topLogProbs ?? 0, ...(param !== undefined && { param }) }
  })
  const echoes: Echo[] = []
  for await (const answer of (await model.engine.read!({ organisation, prefix: [], questions }, signal)).answers) {
    if ('error' in answer) throw answer.error
    const { question, tokens = [] } = answer
    const prompt = prompts[question]!
    const text = typeof prompt === 'string' ? prompt : Buffer.from(tokens.flatMap(({ bytes }) => bytes)).toString()
    echoes[question] = { text, ...(topLogProbs !== null && { logProbs: tokens }) }
  }
  return echoes
}

async function* withEchoes(
  echoes: readonly Echo[],
  n: number,
  events: AsyncIterable<ChoiceEvent>,
): AsyncGenerator<ChoiceEvent, void, void> {
  for (let choice = 0; choice < echoes.length * n; choice++)
    yield { choice, event: { type: 'text', ...echoes[Math.floor(choice / n)]! } }
  yield* events
}

function verbatim(): ReplyReader {
  return new ReplyReader({ thought: null, thinking: false, content: null })
}
