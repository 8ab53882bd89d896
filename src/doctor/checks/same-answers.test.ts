import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest'
import { FakeEngine } from '../../../test/support/fake-engine.ts'
import { CARD } from '../../../test/support/local-engine.ts'
import type { Engine, Numerics } from '../../inference/contract/engine.ts'
import type { EngineEvent, Generation } from '../../inference/contract/generation.ts'
import type { Work } from '../../inference/contract/work.ts'
import { invalidRequest } from '../../lib/errors/errors.ts'
import { MediaLoader } from '../../media/media-loader.ts'
import { loadCard } from '../../models/card.ts'
import { examine } from '../examination.ts'
import type { Finding } from '../finding.ts'

/** What an engine does to a reply, by what it has been asked before and by what else it computes. */
interface Fault {
  readonly text?: string
  readonly logProb?: number
}
type FaultOf = (asked: { readonly work: Work; readonly earlier: readonly Work[]; readonly running: number }) => Fault

class FaultyEngine extends FakeEngine {
  readonly #faultOf: FaultOf
  #running = 0

  constructor(isInvariant: boolean | null, faultOf: FaultOf) {
    super()
    if (isInvariant !== null) this.numerics = { isInvariant } as Numerics
    this.#faultOf = faultOf
    this.script = { texts: ['Because ', 'of ', 'light.'] }
  }

  override async generate(work: Work, signal: AbortSignal): Promise<Generation> {
    const earlier = [...this.works]
    const generation = await super.generate(work, signal)
    this.#running++
    return { ...generation, events: this.#changed(generation.events, work, earlier) }
  }

  async *#changed(
    events: AsyncIterable<EngineEvent>,
    work: Work,
    earlier: readonly Work[],
  ): AsyncGenerator<EngineEvent> {
    // All that come at once have come by then.
    await new Promise((resolve) => setImmediate(resolve))
    const { text = '', logProb = 0 } = this.#faultOf({ work, earlier, running: this.#running })
    for await (const event of events) {
      if (event.type !== 'text') {
        yield event
        continue
      }
      const logProbs = event.logProbs?.map((one) => ({ ...one, logProb: one.logProb + logProb }))
      yield { ...event, text: event.text + text, ...(logProbs && { logProbs }) }
    }
    this.#running--
  }
}

/** For all examinations: each would start decoders of its own. */
const media = new MediaLoader()
afterAll(() => media.close())

async function findingOf(engine: Engine): Promise<Finding> {
  const card = await loadCard(CARD)
  const served = { ...card.serves[0]!, modalities: ['text' as const] }
  const findings: Finding[] = []
  for await (const one of examine({ card, served, engine, media, images: 6, checks: ['same answers'] }))
    findings.push(one)
  expect(findings).toHaveLength(1)
  return findings[0]!
}

let clock = 0
beforeEach(() => {
  clock = 0
  vi.spyOn(performance, 'now').mockImplementation(() => clock)
})
afterEach(() => vi.restoreAllMocks())

const textOf = ({ prefix }: Work) => prefix.map((part) => (part.type === 'text' ? part.text : '')).join('')

test('equal bits, as promised, are ok', async () => {
  expect(await findingOf(new FaultyEngine(true, () => ({})))).toMatchObject({
    check: 'same answers',
    verdict: 'ok',
    finding:
      '16 of 16 answers are the same, bit for bit: again, at once, after prompts that begin alike, without log-probabilities.',
    numbers: { isPromised: true, same: 16, total: 16, difference: 0 },
  })
})

const AT_ONCE: FaultOf = ({ running }) => (running > 1 ? { logProb: 2 ** -20 } : {})
test('a last bit that depends on other work is a warning where it is promised not to', async () => {
  const { verdict, finding, numbers } = await findingOf(new FaultyEngine(true, AT_ONCE))
  expect(verdict).toBe('warning')
  expect(finding).toBe(
    '12 of 16 answers are the same, bit for bit. Same texts: again 4 of 4, at once 4 of 4, after prompts that begin alike 4 of 4, without log-probabilities 4 of 4. Log-probabilities differ by up to 9.5e-7. All should be: please report this.',
  )
  expect(numbers).toMatchObject({ ways: { again: { same: 4 }, 'at once': { same: 0, sameTexts: 4 } } })
})

test.each([false, null])('it is counted where nothing is promised (%s)', async (isInvariant) => {
  const { verdict, finding } = await findingOf(new FaultyEngine(isInvariant, AT_ONCE))
  expect([verdict, finding]).toEqual(['measured', expect.stringMatching(/^12 of 16 .* Nothing is promised here\.$/)])
  const { verdict: ofEqual } = await findingOf(new FaultyEngine(isInvariant, () => ({})))
  expect(ofEqual).toBe('measured')
})

test.each<[string, FaultOf]>([
  ['again', ({ work, earlier }) => (earlier.some((one) => sameAs(one, work)) ? { text: '!' } : {})],
  [
    'after prompts that begin alike',
    ({ work, earlier }) =>
      earlier.some((one) => one.organisation === work.organisation && !sameAs(one, work)) ? { text: '!' } : {},
  ],
  [
    'without log-probabilities',
    ({ work }) =>
      work.branches[0]!.topLogProbs === undefined && work.branches[0]!.maxTokens! > 1 ? { text: '!' } : {},
  ],
])('a text that is another one %s is found', async (way, faultOf) => {
  const { verdict, numbers } = await findingOf(new FaultyEngine(true, faultOf))
  expect(verdict).toBe('warning')
  expect(numbers).toMatchObject({ ways: { [way]: { sameTexts: 0 } } })
})

const sameAs = (one: Work, other: Work) => one.organisation === other.organisation && textOf(one) === textOf(other)

test('without log-probabilities, texts are compared', async () => {
  const engine = new FaultyEngine(null, () => ({}))
  const refusal = ({ branches }: Work) =>
    branches[0]!.topLogProbs === undefined ? undefined : invalidRequest('There are none.', 'logprobs')
  engine.script = { ...engine.script, refusal }
  const { verdict, finding } = await findingOf(engine)
  expect([verdict, finding]).toEqual([
    'measured',
    '12 of 12 answers are the same, as far as texts show. Same texts: again 4 of 4, at once 4 of 4, after prompts that begin alike 4 of 4. Nothing is promised here.',
  ])
})

test('a slow model is asked two prompts', async () => {
  const slow: FaultOf = () => {
    clock += 1000
    return {}
  }
  expect((await findingOf(new FaultyEngine(true, slow))).numbers).toMatchObject({ prompts: 2, same: 8, total: 8 })
})
