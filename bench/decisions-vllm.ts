/**
 * Questions with known answers about one picture that neither server has seen: one call for decisions to Lookout, against
 * calls to the `/v1/systemone` of vLLM, on vLLM for CPUs with the same weights. vLLM takes 64 questions in a call; its calls
 * are sent at once.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportModel } from '../src/hugging-face/export-model.ts'
import { loadCard } from '../src/models/card.ts'
import { installVllm } from '../test/support/vllm/environment.ts'
import { MODEL, Vllm } from '../test/support/vllm/server.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type Answered, decide, shareRight } from './support/decide.ts'
import { type KnownPicture, knownPicture } from './support/known-picture.ts'
import { SHIPPED_CARD, shippedModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { medianRatio, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const QUESTIONS = [64, 400] as const
/** vLLM's own limit. */
const MOST_IN_CALL = 64

export const decisionsVllm: Benchmark = {
  summary: "64 and 400 questions about one picture, against vLLM's /v1/systemone (installs vLLM for CPUs, 3.5 GB)",
  withPeer: false,

  async run(options) {
    const python = await installVllm((line) => process.stderr.write(`${line}\n`))
    const { id, name } = await shippedModel()
    const folder = await mkdtemp(join(tmpdir(), 'lookout-bench-vllm-'))
    const model = join(folder, 'model')
    const rows: string[][] = []
    try {
      await exportModel(await loadCard(SHIPPED_CARD), model, new AbortController().signal)
      const threads = options.peerThreads ?? availableParallelism()
      await using lookout = await startLookout(SHIPPED_CARD, id)
      await using vllm = await Vllm.start({ python, model }, { threads, decides: true, maxSequences: MOST_IN_CALL })
      // Ended by itself, so that what it took of the processors counts as this command's own.
      await using _ = { [Symbol.asyncDispose]: () => vllm.stop() }
      for (const count of QUESTIONS)
        rows.push([String(count), String(threads), ...(await measure(lookout, vllm.url, count, options))])
    } finally {
      await rm(folder, { recursive: true })
    }
    print(`### Decisions against vLLM, ${name}

Yes-or-no questions about one new picture, half of them with the answer yes; medians (minimum to maximum) of ${repetitionsOf(options)} repetitions in turn. vLLM has its prefix cache, and words the questions in its own way, which the model has not learnt.

${table(
  ['questions', "vLLM's threads", 'Lookout, ms', 'vLLM, ms', 'times faster', 'right, Lookout', 'right, vLLM'],
  rows,
)}`)
  },
}

const repetitionsOf = ({ quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 1 : 3)

async function measure(lookout: BenchServer, vllm: string, count: number, options: BenchOptions): Promise<string[]> {
  const fresh = new FreshText()
  const own: Answered[] = []
  const others: Answered[] = []
  const pictures: KnownPicture[] = []
  // The first call of each is a warm-up, in which memory is touched for the first time.
  for (let run = -1; run < repetitionsOf(options); run++) {
    const picture = await knownPicture(fresh, run < 0 ? 16 : count)
    const results: Answered[] = []
    // The order alternates, so that neither side benefits from the processor's caches.
    if (run % 2 === 0) results[0] = await decide(lookout, picture)
    results[1] = await decideByVllm(vllm, picture)
    results[0] ??= await decide(lookout, picture)
    if (run < 0) continue
    pictures.push(picture)
    own.push(results[0])
    others.push(results[1])
  }
  const times = (results: readonly Answered[]) => results.map(({ totalMs }) => totalMs)
  return [
    spread(times(own), 0),
    spread(times(others), 0),
    medianRatio(times(others), times(own)).toFixed(1),
    shareRight(own, pictures),
    shareRight(others, pictures),
  ]
}

async function decideByVllm(server: string, { url, questions }: KnownPicture): Promise<Answered> {
  const started = performance.now()
  const calls = Array.from({ length: Math.ceil(questions.length / MOST_IN_CALL) }, (_, call) =>
    questions.slice(call * MOST_IN_CALL, (call + 1) * MOST_IN_CALL),
  )
  const answers = await Promise.all(
    calls.map(async (some) => {
      const asked = some.map(({ question }, at) => [`q${at}`, { type: 'noul', instructions: question }])
      const response = await fetch(`${server}/v1/systemone`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, state: '', images: [url], questions: Object.fromEntries(asked) }),
      })
      if (!response.ok) throw new Error(`vLLM answered ${response.status}: ${await response.text()}`)
      const { answers } = (await response.json()) as { answers: Record<string, { noul: number }> }
      return some.map((_, at) => answers[`q${at}`]!.noul > 0.5)
    }),
  )
  return { totalMs: performance.now() - started, answers: answers.flat() }
}
