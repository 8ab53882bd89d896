import { untrusted } from '../../conversation/prompt/placeholders.ts'
import { escapePattern, type TagRules } from '../../grounding/dialect.ts'
import { DIALECTS } from '../../grounding/dialects/dialects.ts'
import { GREEDY } from '../../inference/contract/greedy.ts'
import type { Branch } from '../../inference/contract/work.ts'
import { type Exhibit, targetName } from '../exhibit.ts'
import { type Finding, of } from '../finding.ts'
import type { Subject } from '../subject.ts'
import { atLeast } from './sight.ts'

const CHECK = 'several images'
const REPLY_TOKENS = 96
/** A model passes if guessing does as well with at most this probability. */
const CHANCE_LIMIT = 0.01
const GOOD_SHARE = 0.9
const NAMED = /asset_idx="([01])"/

/**
 * Whether the model names the right one of two images. A model whose card does not promise that is asked about one
 * image after the other, so there is nothing to check.
 */
export async function checkSeveralImages(subject: Subject, exhibits: readonly Exhibit[]): Promise<Finding[]> {
  const hasBoxes = subject.model.served.outputFormats.includes('box')
  if (!subject.card.namesAssets || !hasBoxes || subject.blindness !== null) return []
  const pairs = exhibits.flatMap((first, i) => {
    const second = [...exhibits.slice(i + 1), ...exhibits.slice(0, i)].find((other) => !holds(other, first))
    return second === undefined ? [] : [{ first, second }]
  })
  const right = await Promise.all(
    pairs.flatMap(({ first, second }) =>
      [0, 1].map(async (place) => {
        const shown = place === 0 ? [first, second] : [second, first]
        return NAMED.exec(await ask(subject, shown, targetName(first)))?.[1] === String(place)
      }),
    ),
  )
  const count = right.filter(Boolean).length
  const chance = atLeast(count, right.length, 1 / 2)
  const isGood = chance <= CHANCE_LIMIT && count >= GOOD_SHARE * right.length
  const numbers = { right: count, asked: right.length, chance }
  const finding = `Of two images, the model names the right one in ${of(count, right.length)} replies`
  return isGood
    ? [{ check: CHECK, verdict: 'ok', finding: `${finding}.`, numbers }]
    : [{ check: CHECK, verdict: 'failed', finding: `${finding}: remove "namesAssets" from the card.`, numbers }]
}

/** Whether an image shows what the other one is asked for. */
function holds({ drawing }: Exhibit, { drawing: { target } }: Exhibit): boolean {
  return [drawing.target, ...drawing.others].some(
    ({ kind, colour }) => kind === target.kind && colour === target.colour,
  )
}

function patternOf({ begin, pattern, end }: TagRules['tags'][number]): string {
  return `${escapePattern(begin)}${pattern}${escapePattern(end)}`
}

async function ask(subject: Subject, shown: readonly Exhibit[], label: string): Promise<string> {
  const dialect = DIALECTS.markup
  const { prefix, suffix } = await subject.prompt(dialect.instruction('box'))
  const images = shown.map(({ image }) => ({ type: 'image' as const, image: image.image }))
  const { width, height } = images.at(-1)!.image
  const scene = { assets: 2, timed: false, image: { width, height }, choices: [0, 1] }
  const { tags } = dialect.tags('box', scene)
  const branch: Branch = {
    suffix: suffix([...images, ...untrusted(dialect.detection.question('box', [label]))]),
    n: 1,
    maxTokens: REPLY_TOKENS,
    sampling: GREEDY,
    constraint: { type: 'regex', pattern: tags.map(patternOf).join('|') },
  }
  const [reply] = await subject.generate(prefix, [branch])
  return reply!.text
}
