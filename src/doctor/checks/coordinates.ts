import { DIALECTS, type DialectName } from '../../grounding/dialects/dialects.ts'
import type { Constraint } from '../../inference/contract/constraint.ts'
import { getOrMake } from '../../lib/get-or-make.ts'
import { type Convention, describeConvention } from '../coordinates/convention.ts'
import { conventionOf, detectionKind, dialectsWith, placePattern, readBy } from '../coordinates/dialect-convention.ts'
import { type Answer, FEWEST_ANSWERS, type Fit, fitConventions, same } from '../coordinates/fit.ts'
import { firstPlace } from '../coordinates/number-groups.ts'
import { type Exhibit, targetName } from '../exhibit.ts'
import { type Finding, of } from '../finding.ts'
import type { Subject } from '../subject.ts'

const CHECK = 'coordinates'
const PLAIN = 'coordinates in plain words'
/** An answer in the wordiest notation, a fenced list of JSON objects, takes 50 tokens. */
const REPLY_TOKENS = 96
/** Mean error in patches up to which places are good. */
const GOOD_ERROR = 2
/** Advice for users who have just fetched the model. */
const ADVICE = 'use another model for places, or see docs/doctor.md'
/** Share of the replies that must hold a place, and of the places that the dialect's reader must find. */
const ENOUGH = 0.75

/** A way to ask where something is. */
interface Way {
  readonly instruction: string | null
  question(label: string): string
  constraint?(label: string, exhibit: Exhibit): Constraint
}

interface Replies {
  readonly texts: readonly string[]
  readonly answers: readonly Answer[]
  readonly fit: Fit
}

/** Words that suggest neither a unit nor an order. */
const PLAIN_WORDS: Way = {
  instruction: null,
  question: (label) => `Where is the ${label}? Give the coordinates of its bounding box.`,
}

/**
 * Measures which convention the model's places follow when it is asked in the card's dialect, and whether that is the
 * dialect's convention.
 */
export async function checkCoordinates(
  subject: Subject,
  exhibits: readonly Exhibit[],
  earlier: readonly Finding[],
): Promise<Finding> {
  if (subject.blindness !== null) return { check: CHECK, verdict: 'skipped', finding: subject.blindness }
  const { dialect } = subject.card
  const own = dialect === null ? null : conventionOf(dialect)
  // A model that does not see cannot locate anything, however it is asked.
  const sees = earlier.every(({ verdict }) => verdict !== 'noise')
  const advise = async () => (sees ? adviceFor(subject, exhibits) : '')
  if (dialect === null || own === null) return withoutDialect(await advise())
  const inDialect = await ask(subject, exhibits, dialectWay(dialect), own)
  const judged = await judge({ subject, exhibits, dialect, own, replies: inDialect })
  const advice = isBad(judged) ? await advise() : ''
  // The model does locate things when it is asked in another way.
  const verdict = advice === '' ? judged.verdict : 'failed'
  return promised(subject, { ...judged, verdict, finding: judged.finding + advice })
}

/** The same with words that suggest no notation, to see the model's own. */
export async function checkPlainCoordinates(
  subject: Subject,
  exhibits: readonly Exhibit[],
): Promise<readonly Finding[]> {
  if (subject.blindness !== null) return []
  return [{ check: PLAIN, verdict: 'measured', ...told(await plainReplies(subject, exhibits), exhibits) }]
}

const repliesOf = new WeakMap<Subject, Promise<Replies>>()

/** Cached, because two checks may need them. */
function plainReplies(subject: Subject, exhibits: readonly Exhibit[]): Promise<Replies> {
  const { dialect } = subject.card
  return getOrMake(repliesOf, subject, () =>
    ask(subject, exhibits, PLAIN_WORDS, dialect === null ? null : conventionOf(dialect)),
  )
}

/** A check of something that the card does not promise cannot fail. */
function promised({ model: { served } }: Subject, finding: Finding): Finding {
  if (served.outputFormats.some((format) => format === 'box' || format === 'point')) return finding
  const text = `${finding.finding} The card's outputFormats have neither box nor point.`
  return { ...finding, verdict: isBad(finding) ? 'warning' : finding.verdict, finding: text }
}

function isBad({ verdict }: Finding): boolean {
  return verdict === 'failed' || verdict === 'noise'
}

interface Judged {
  readonly subject: Subject
  readonly exhibits: readonly Exhibit[]
  readonly dialect: DialectName
  readonly own: Convention
  readonly replies: Replies
}

async function judge({ subject, exhibits, dialect, own, replies }: Judged): Promise<Finding> {
  const { fit } = replies
  const places = detectionKind(dialect) === 'point' ? 'Points' : 'Boxes'
  if (!isEnough(replies, exhibits)) {
    // Constrained to the notation, every model writes places. Only the test against chance shows whether they mean
    // anything.
    const held = await ask(subject, exhibits, dialectWay(dialect, true), own)
    const numbers = numbersOf(held.fit)
    const few = `${of(replies.answers.length, exhibits.length)} replies hold a place`
    const notation = `Held to the notation of the dialect '${dialect}'`
    if (held.fit.within.length === 0) {
      const finding = `${places} are missing, ${few}: ${ADVICE}. ${notation}, they are no better than chance (p = ${held.fit.chance.toFixed(2)}).`
      return { check: CHECK, verdict: 'noise', finding, numbers }
    }
    const isOwn = held.fit.within.some((one) => same(one, own))
    const finding = `${places} are missing, ${few}: ${ADVICE}. ${notation}, they follow ${named(held.fit)}.`
    return { check: CHECK, verdict: isOwn ? 'warning' : 'failed', finding, numbers }
  }
  const numbers = { ...numbersOf(fit), own: { ...own, error: fit.errorOf(own) } }
  if (fit.verdict === 'noise') {
    const finding = `${places} are no better than chance: ${ADVICE}. Answers to other images fit as well with p = ${fit.chance.toFixed(2)}.`
    return { check: CHECK, verdict: 'noise', finding, numbers }
  }
  if (!fit.within.some((one) => same(one, own))) {
    const off = `${places} are off by ${fit.errorOf(own).toFixed(1)} patches on average`
    const finding = `${off}: ${ADVICE}. They follow ${named(fit)}, and the card's dialect '${dialect}' means ${describeConvention(own)}.`
    return { check: CHECK, verdict: 'failed', finding, numbers }
  }
  const read = replies.texts.filter((text, i) => readBy(dialect, text, exhibits[i]!.frame) !== null).length
  if (read < ENOUGH * replies.answers.length) {
    const finding = `${places} are written in another notation than the card's dialect '${dialect}' reads: ${ADVICE}. It reads ${of(read, replies.answers.length)} of them, which follow ${describeConvention(own)}.`
    return { check: CHECK, verdict: 'failed', finding, numbers }
  }
  const error = fit.errorOf(own)
  const about = `${describeConvention(own)}, as the dialect '${dialect}' says; mean error ${patches(error)}, ${of(replies.answers.length, exhibits.length)} replies.`
  return error <= GOOD_ERROR
    ? { check: CHECK, verdict: 'ok', finding: `${places} are exact: ${about}`, numbers }
    : { check: CHECK, verdict: 'warning', finding: `${places} are imprecise: ${about}`, numbers }
}

function withoutDialect(advice: string): Finding {
  const none = 'The card has no dialect, so the model is not asked for places'
  return advice === ''
    ? { check: CHECK, verdict: 'skipped', finding: `${none}.` }
    : { check: CHECK, verdict: 'warning', finding: `${none}, but it could be.${advice}` }
}

/** Which dialect the card should name instead; empty when no dialect fits. */
async function adviceFor(subject: Subject, exhibits: readonly Exhibit[]): Promise<string> {
  const few = exhibits.slice(0, Math.max(FEWEST_ANSWERS, Math.ceil(exhibits.length / 2)))
  const fitting: { readonly name: DialectName; readonly error: number }[] = []
  for (const name of Object.keys(DIALECTS) as DialectName[]) {
    const convention = name === subject.card.dialect ? null : conventionOf(name)
    if (convention === null) continue
    const { fit, texts, answers } = await ask(subject, few, dialectWay(name), convention)
    const read = texts.filter((text, i) => readBy(name, text, few[i]!.frame) !== null).length
    const isRead = answers.length >= ENOUGH * few.length && read >= ENOUGH * answers.length
    if (!isRead || !fit.within.some((one) => same(one, convention))) continue
    const error = fit.errorOf(convention)
    if (error <= GOOD_ERROR) fitting.push({ name, error })
  }
  if (fitting.length > 0) {
    const [{ name, error }] = fitting.sort((a, b) => a.error - b.error) as [(typeof fitting)[0]]
    return ` In the dialect '${name}' the mean error is ${patches(error)}: set "dialect": "${name}" in the card.`
  }
  const plain = await plainReplies(subject, exhibits)
  if (!isEnough(plain, exhibits) || plain.fit.within.length === 0) return ''
  const names = dialectsWith((convention) => plain.fit.within.some((one) => same(one, convention)))
  const advice = names.length === 0 ? 'no dialect has that' : `so do the dialects ${names.join(', ')}`
  return ` Asked in plain words, places follow ${named(plain.fit)}: ${advice}.`
}

/** @param held whether the model is constrained to one place in the dialect's notation. */
function dialectWay(name: DialectName, held = false): Way {
  const { detection } = DIALECTS[name]
  const kind = detectionKind(name)!
  const way: Way = {
    instruction: detection.instruction(kind),
    question: (label) => detection.question(kind, [label]),
  }
  if (!held) return way
  const constraint = (label: string, { frame }: Exhibit): Constraint => ({
    type: 'regex',
    pattern: placePattern(name, label, frame),
  })
  return { ...way, constraint }
}

async function ask(subject: Subject, exhibits: readonly Exhibit[], way: Way, own: Convention | null): Promise<Replies> {
  const texts = await Promise.all(
    exhibits.map(async (exhibit) => {
      const label = targetName(exhibit)
      const constraint = way.constraint?.(label, exhibit)
      const question = { text: way.question(label), maxTokens: REPLY_TOKENS, ...(constraint ? { constraint } : {}) }
      const asked = { image: exhibit.image, instruction: way.instruction, questions: [question] }
      const [reply] = await subject.ask(asked)
      return reply!.text
    }),
  )
  const answers = texts.flatMap((text, i): Answer[] => {
    const numbers = firstPlace(text)
    const { frame, drawing } = exhibits[i]!
    return numbers === null ? [] : [{ numbers, frame, target: drawing.target.box }]
  })
  return { texts, answers, fit: fitConventions(answers, own) }
}

function isEnough({ answers }: Replies, exhibits: readonly Exhibit[]): boolean {
  return answers.length >= Math.max(FEWEST_ANSWERS, ENOUGH * exhibits.length)
}

function told({ answers, fit }: Replies, exhibits: readonly Exhibit[]): Pick<Finding, 'finding' | 'numbers'> {
  const count = of(answers.length, exhibits.length)
  const finding =
    fit.verdict === 'too few'
      ? `${count} replies hold a place.`
      : fit.verdict === 'noise'
        ? `${count} replies hold a place, none better than chance (p = ${fit.chance.toFixed(2)}).`
        : `Places follow ${named(fit)}; ${count} replies hold one.`
  return { finding, numbers: numbersOf(fit) }
}

/** The best convention, its error, and conventions that cannot be distinguished from it. */
function named({ verdict, best, error, within }: Fit): string {
  const others = within.slice(1).map(describeConvention)
  const more = verdict === 'ambiguous' ? `; as likely: ${others.slice(0, 3).join('; ')}` : ''
  return `${describeConvention(best)} (mean error ${patches(error)}${more})`
}

function numbersOf({ verdict, answers, best, error, within, chance }: Fit): Record<string, unknown> {
  if (verdict === 'too few') return { verdict, answers }
  return { verdict, answers, best: { ...best, error }, within, chance }
}

function patches(error: number): string {
  return `${error.toFixed(2)} patches`
}
