import { untrusted } from '../../conversation/prompt/placeholders.ts'
import { GREEDY } from '../../inference/contract/greedy.ts'
import type { PromptPart } from '../../inference/contract/parts.ts'
import { ApiError } from '../../lib/errors/errors.ts'
import { sumOf } from '../../lib/sum.ts'
import type { Exhibit } from '../exhibit.ts'
import { type Finding, of } from '../finding.ts'
import type { RawReply, Subject } from '../subject.ts'

/** All prompts begin alike, so that a cache has the beginning of each. */
const OPENING = 'Answer in one or two short sentences, and do not repeat the question. '
const QUESTIONS = ['Why is the sky blue?', 'What is a river?', 'Name three fruits.', 'How do birds fly?']
const OTHER_QUESTION = 'Is this a question?'
const IMAGE_QUESTION = 'What is in the image?'
const REPLY_TOKENS = 16
/** A slow model is asked nothing more after this many prompts and this much time. */
const FEWEST_PROMPTS = 2
const LONG_MS = 1500

interface Asked {
  readonly parts: readonly PromptPart[]
  /** Another question with the same beginning. */
  readonly other: readonly PromptPart[]
}

interface Comparison {
  /** Replies that equal the first ones in every bit that the engine reports. */
  readonly same: number
  /** Replies with the same text. */
  readonly sameTexts: number
  /** Largest difference of a log-probability while the texts are the same; null if none are known. */
  readonly difference: number | null
}

/**
 * Whether the same prompt gets the same answer beside any other work: a few prompts are asked alone, with empty caches,
 * and then in other ways.
 */
export async function checkSameAnswers(subject: Subject, exhibits: readonly Exhibit[]): Promise<Finding> {
  const check = 'same answers'
  const isPromised = subject.engine.numerics?.isInvariant === true
  const all = await promptsFor(subject, exhibits)
  const first = await firstAnswers(subject, all)
  const asked = all.slice(0, first.length)
  const isRated = first.some(({ logProbs }) => logProbs.length > 0)
  const again = (organisation: (index: number) => string, rated = isRated) =>
    asked.map(
      ({ parts }, index) =>
        () =>
          ask(subject, parts, { organisation: organisation(index), rated }),
    )
  const ways = {
    again: await inTurn(again(ownOrganisation)),
    'at once': await atOnce(again((index) => `at once ${index}`)),
    'after prompts that begin alike': await inTurn(
      asked.map(({ parts, other }) => async () => {
        await ask(subject, other, { organisation: 'alike', rated: false, maxTokens: 1 })
        return ask(subject, parts, { organisation: 'alike', rated: isRated })
      }),
    ),
    ...(isRated ? { 'without log-probabilities': await atOnce(again(ownOrganisation, false)) } : {}),
  }
  const compared = Object.entries(ways).map(([way, replies]) => [way, compare(first, replies)] as const)
  const results = compared.map(([, comparison]) => comparison)
  const total = results.length * first.length
  const same = sumOf(results, (one) => one.same)
  const differences = results.flatMap(({ difference }) => difference ?? [])
  const difference = differences.length === 0 ? null : Math.max(...differences)
  const numbers = { isPromised, prompts: first.length, same, total, difference, ways: Object.fromEntries(compared) }
  const bits = isRated ? 'bit for bit' : 'as far as texts show'
  if (same === total && isPromised) {
    const finding = `${of(same, total)} answers are the same, ${bits}: ${Object.keys(ways).join(', ')}.`
    return { check, verdict: 'ok', finding, numbers }
  }
  const counts = compared.map(([way, { sameTexts }]) => `${way} ${of(sameTexts, first.length)}`).join(', ')
  const most = difference === null ? '' : ` Log-probabilities differ by up to ${difference.toPrecision(2)}.`
  const finding = `${of(same, total)} answers are the same, ${bits}. Same texts: ${counts}.${most}`
  return isPromised
    ? { check, verdict: 'warning', finding: `${finding} All should be: please report this.`, numbers }
    : { check, verdict: 'measured', finding: `${finding} Nothing is promised here.`, numbers }
}

async function promptsFor(subject: Subject, exhibits: readonly Exhibit[]): Promise<Asked[]> {
  const { prefix, suffix } = await subject.prompt()
  const prompt = (content: readonly PromptPart[]) => [...prefix, ...suffix(content)]
  const [exhibit] = exhibits
  const image: PromptPart[] = exhibit === undefined ? [] : [{ type: 'image', image: exhibit.image.image }]
  const other = (shown: readonly PromptPart[]) => prompt([...shown, ...untrusted(OPENING + OTHER_QUESTION)])
  const plain = QUESTIONS.map((question) => ({ parts: prompt(untrusted(OPENING + question)), other: other([]) }))
  if (exhibit === undefined) return plain
  const seen = { parts: prompt([...image, ...untrusted(OPENING + IMAGE_QUESTION)]), other: other(image) }
  return [plain[0]!, seen, ...plain.slice(1, -1)]
}

/** An organisation of its own, whose cache is empty. */
const ownOrganisation = (index: number) => `alone ${index}`

async function firstAnswers(subject: Subject, prompts: readonly Asked[]): Promise<RawReply[]> {
  const started = performance.now()
  const replies: RawReply[] = []
  let rated = true
  for (const [index, { parts }] of prompts.entries()) {
    if (replies.length >= FEWEST_PROMPTS && performance.now() - started > LONG_MS) break
    const organisation = ownOrganisation(index)
    const reply = await ask(subject, parts, { organisation, rated }).catch((error: unknown) => {
      // Servers of other engines may not return log-probabilities.
      if (!rated || !(error instanceof ApiError) || error.status !== 400) throw error
      rated = false
      return ask(subject, parts, { organisation, rated })
    })
    replies.push(reply)
  }
  return replies
}

async function ask(
  subject: Subject,
  parts: readonly PromptPart[],
  how: { readonly organisation: string; readonly rated: boolean; readonly maxTokens?: number },
): Promise<RawReply> {
  const { organisation, rated, maxTokens = REPLY_TOKENS } = how
  const branch = { suffix: [], n: 1, maxTokens, sampling: GREEDY, ...(rated ? { topLogProbs: 0 } : {}) }
  const [reply] = await subject.generate(parts, [branch], `${organisation} (doctor)`)
  return reply!
}

type Ask = () => Promise<RawReply>
const atOnce = (asks: readonly Ask[]) => Promise.all(asks.map((one) => one()))

async function inTurn(asks: readonly Ask[]): Promise<RawReply[]> {
  const replies: RawReply[] = []
  for (const one of asks) replies.push(await one())
  return replies
}

function compare(first: readonly RawReply[], then: readonly RawReply[]): Comparison {
  const pairs = first.map((before, index) => ({ before, after: then[index]! }))
  const sameTexts = pairs.map(({ before, after }) => before.text === after.text)
  const differences = pairs.map(({ before, after }) => differencesOf(before, after))
  const known = differences.flat()
  return {
    same: sameTexts.filter((isSame, index) => isSame && differences[index]!.every((one) => one === 0)).length,
    sameTexts: sameTexts.filter(Boolean).length,
    difference: known.length === 0 ? null : Math.max(...known),
  }
}

/** Differences between the log-probabilities of two replies, up to the first token that differs. */
function differencesOf({ logProbs: before }: RawReply, { logProbs: after }: RawReply): number[] {
  const differing = before.findIndex(({ text }, index) => after[index]?.text !== text)
  const same = differing === -1 ? before : before.slice(0, differing)
  return same.map(({ logProb }, index) => Math.abs(logProb - after[index]!.logProb))
}
