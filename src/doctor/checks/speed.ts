import { GREEDY } from '../../inference/contract/greedy.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import type { Branch } from '../../inference/contract/work.ts'
import type { WorkTrace } from '../../inference/contract/work-trace.ts'
import { drawExhibits } from '../exhibit.ts'
import type { Finding } from '../finding.ts'
import { seededRandom } from '../random.ts'
import { ORGANISATION, type Subject } from '../subject.ts'

const PROMPT_WORDS = 256
const QUESTION_WORDS = 8
const REPLY_TOKENS = 48
const STREAMS = 4
/** Repeats the first token, so that a reply of any model has the wanted number of tokens. */
const REPEATING = { ...GREEDY, presencePenalty: -1000 }
const WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten']

interface Timing {
  readonly promptTokens: number
  readonly completionTokens: number
  /** From the request to the first text, and from there to the end. */
  readonly firstMs: number
  readonly restMs: number
  /** As reported by the engine; null if it encoded nothing, or does not say so. */
  readonly encoderMs: number | null
}

/** How fast the model is on this machine. There is nothing to compare it with. */
export async function checkSpeed(subject: Subject): Promise<Finding> {
  const prompt = await time(subject, [words(PROMPT_WORDS, 1)], 1, 1)
  const alone = await time(subject, [words(QUESTION_WORDS, 2)], 1, REPLY_TOKENS)
  const together = await time(subject, [words(QUESTION_WORDS, 3)], STREAMS, REPLY_TOKENS)
  const numbers = {
    promptTokensPerSecond: rate(prompt.promptTokens, prompt.firstMs),
    decodeTokensPerSecond: rate(alone.completionTokens - 1, alone.restMs),
    [`decodeTokensPerSecond${STREAMS}`]: rate(together.completionTokens - STREAMS, together.restMs),
    firstTokenMs: Math.round(alone.firstMs),
    ...(subject.blindness === null ? await imageTimes(subject) : {}),
    // 0 if the model runs on other machines.
    memoryBytes: (await subject.engine.stats?.())?.residentBytes || null,
  }
  return { check: 'speed', verdict: 'measured', finding: describe(numbers), numbers }
}

function describe(numbers: Readonly<Record<string, number | null>>): string {
  const { promptTokensPerSecond, decodeTokensPerSecond, firstTokenMs, imageFirstTokenMs, encoderMs, memoryBytes } =
    numbers
  const perSecond = (value: number | null | undefined) => (value == null ? 'too few tokens to tell' : Math.round(value))
  return [
    `prompt ${perSecond(promptTokensPerSecond)} tokens/s`,
    `decode ${perSecond(decodeTokensPerSecond)} tokens/s, ${perSecond(numbers[`decodeTokensPerSecond${STREAMS}`])} in ${STREAMS} streams`,
    `first token after ${firstTokenMs} ms`,
    ...(imageFirstTokenMs == null ? [] : [`with an image after ${imageFirstTokenMs} ms`]),
    ...(encoderMs == null ? [] : [`encoder ${encoderMs} ms`]),
    ...(memoryBytes == null ? [] : [`memory ${(memoryBytes / 2 ** 30).toFixed(2)} GiB`]),
  ].join('; ')
}

async function imageTimes(subject: Subject) {
  // An image that the engine has not seen yet.
  const [exhibit] = await drawExhibits(subject, 1, 2)
  const parts: PromptPart[] = [{ type: 'image', image: exhibit!.image.image }, words(QUESTION_WORDS, 4)]
  const { firstMs, encoderMs } = await time(subject, parts, 1, 1)
  return { imageFirstTokenMs: Math.round(firstMs), encoderMs: encoderMs === null ? null : Math.round(encoderMs) }
}

async function time(subject: Subject, parts: PromptPart[], n: number, maxTokens: number): Promise<Timing> {
  const branch: Branch = { suffix: [], n, maxTokens, sampling: REPEATING }
  let encoderMs: number | null = null
  const trace: WorkTrace = {
    encoded: (ms) => {
      encoderMs = (encoderMs ?? 0) + ms
    },
    asked: () => ({ headers: {}, end() {} }),
    admitted() {},
    started() {},
    spoke() {},
    settled() {},
    ended() {},
  }
  const work = { organisation: ORGANISATION, prefix: parts, branches: [branch], trace }
  const started = performance.now()
  const { prompts, events } = await subject.engine.generate(work, subject.signal)
  let first = 0
  let completionTokens = 0
  for await (const event of events) {
    if (event.type === 'error') throw event.error
    if (first === 0) first = performance.now()
    if (event.type === 'finish') completionTokens += event.completionTokens
  }
  const { promptTokens } = prompts[0]!
  return { promptTokens, completionTokens, firstMs: first - started, restMs: performance.now() - first, encoderMs }
}

/** Each seed gives different words, so that no cache has them. */
function words(count: number, seed: number): PromptPart {
  const random = seededRandom(seed)
  const text = Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ')
  return { type: 'text', text, trusted: false }
}

/** Per second; null for too few tokens. */
function rate(tokens: number, ms: number): number | null {
  return tokens < 1 || ms <= 0 ? null : (tokens / ms) * 1000
}
