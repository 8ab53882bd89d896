/**
 * Schemas that people wrote: how many of JSONSchemaBench's a server takes, and whether every finished reply is valid by judges
 * that share no code with it. Its files are taken in the order of their paths' SHA-256, so that none is chosen.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inTurns } from '../test/support/in-turns.ts'
import { type Benchmark, type BenchOptions, print, UsageError } from './support/benchmark.ts'
import { shippedModel } from './support/models.ts'
import { Judges, SchemaProcess } from './support/schema-judge.ts'
import type { Compiled } from './support/schema-program.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

/** How many files each sample has. */
const SAMPLES = [240, 540]
/** Clients at a time. */
const CLIENTS = 4
const MOST_TOKENS = 400
const SAMPLINGS = [{ temperature: 0 }, { temperature: 1, seed: 1 }] as const
/** Random texts of each grammar. */
const WALKS = 3

interface SampleFile {
  readonly path: string
  /** The schema's JSON. */
  readonly schema: string
  /** Documents that the benchmark says are valid, or not. */
  readonly tests: readonly { readonly valid: boolean; readonly data: unknown }[]
}

/** What came of one sample. */
interface Tally {
  taken: number
  readonly compileMs: number[]
  walks: number
  accepted: { valid: number; ofValid: number; invalid: number; ofInvalid: number }
  answers: { finished: number; cut: number; refused: number; failed: number }
  unjudged: number
}

export const jsonSchema: Benchmark = {
  summary: 'schemas of JSONSchemaBench (--data FOLDER): the share that is taken, and whether replies are valid',
  withPeer: false,

  async run(options) {
    const samples = await readSamples(options)
    await using judges = new Judges(options.python)
    const findings = new Findings()
    const tallies = samples.map(
      (): Tally => ({
        taken: 0,
        compileMs: [],
        walks: 0,
        accepted: { valid: 0, ofValid: 0, invalid: 0, ofInvalid: 0 },
        answers: { finished: 0, cut: 0, refused: 0, failed: 0 },
        unjudged: 0,
      }),
    )
    await using processes = new SchemaProcess()
    for (const [index, sample] of samples.entries()) {
      for (const file of sample) await inProcess(file, tallies[index]!, { processes, judges, findings })
    }
    if (!options.quick) {
      const model = await shippedModel()
      await using server = await startLookout(model.cardFile, model.id)
      for (const [index, sample] of samples.entries()) {
        await inTurns(sample, CLIENTS, (file) => overHttp(file, tallies[index]!, { server, judges, findings }))
      }
    }
    report(samples, tallies, findings, options)
  },
}

/** What is wrong, with the names of the files. */
class Findings {
  readonly refusals = new Map<string, number>()
  readonly invalid: string[] = []
  readonly failures: string[] = []

  refused(message: string): void {
    // Without what the schemas' authors named.
    const reason = message.replace(/["'][^"']*["']/g, (name) => (name.length > 22 ? '…' : name)).slice(0, 100)
    this.refusals.set(reason, (this.refusals.get(reason) ?? 0) + 1)
  }
}

async function readSamples({ data, limit }: BenchOptions): Promise<SampleFile[][]> {
  if (data === null || !existsSync(join(data, 'data'))) {
    throw new UsageError('--data names a checkout of github.com/guidance-ai/jsonschemabench.')
  }
  const names = (await readdir(join(data, 'data'), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name.endsWith('.json'))
    .map((entry) => join(entry.parentPath, entry.name).slice(join(data, '/').length))
  const hash = (name: string) => createHash('sha256').update(name).digest('hex')
  const ordered = names.map((name) => [hash(name), name] as const).sort(([a], [b]) => (a < b ? -1 : 1))
  const most = limit ?? Number.POSITIVE_INFINITY
  let start = 0
  return Promise.all(
    SAMPLES.map((size) => {
      const chosen = ordered.slice(start, Math.min(start + size, most))
      start += size
      return Promise.all(chosen.map(([, path]) => readSample(data, path)))
    }),
  )
}

async function readSample(data: string, path: string): Promise<SampleFile> {
  const schema = await readFile(join(data, path), 'utf8')
  const documents = join(data, 'maskbench', path.replace(/^data\/(.*?)\//, 'data/$1---'))
  const tests = await readFile(documents, 'utf8').then(
    (text) => (JSON.parse(text) as Pick<SampleFile, 'tests'>).tests,
    () => [],
  )
  return { path, schema, tests }
}

interface InProcess {
  readonly processes: SchemaProcess
  readonly judges: Judges
  readonly findings: Findings
}

/** Compiles the schema, writes random texts of its grammar, and reads the documents of the benchmark with it. */
async function inProcess(file: SampleFile, tally: Tally, { processes, judges, findings }: InProcess): Promise<void> {
  const { path, schema, tests } = file
  try {
    const { refusal, ms } = await processes.ask<Compiled>({ ask: 'compile', schema })
    tally.compileMs.push(ms)
    if (refusal !== null) return findings.refused(refusal)
    tally.taken++
    for (let seed = 1; seed <= WALKS; seed++) {
      const text = await processes.ask<string | null>({ ask: 'walk', schema, seed })
      if (text === null) continue
      tally.walks++
      await judge({ ...file, text, what: `random text ${seed}` }, tally, { judges, findings })
    }
    const values = tests.map(({ data }) => data)
    const accepted = await processes.ask<readonly boolean[]>({ ask: 'accept', schema, values })
    for (const [index, { valid, data }] of tests.entries()) {
      const counts = tally.accepted
      if (valid) {
        counts.ofValid++
        if (accepted[index]) counts.valid++
        continue
      }
      counts.ofInvalid++
      if (!accepted[index]) continue
      counts.invalid++
      await judge({ ...file, text: JSON.stringify(data), what: `invalid document ${index}` }, tally, {
        judges,
        findings,
      })
    }
  } catch (error) {
    findings.failures.push(`${path}: ${(error as Error).message}`)
  }
}

interface OverHttp {
  readonly server: BenchServer
  readonly judges: Judges
  readonly findings: Findings
}

async function overHttp(file: SampleFile, tally: Tally, { server, judges, findings }: OverHttp): Promise<void> {
  for (const sampling of SAMPLINGS) {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
      // Written by hand, because a schema may name properties such as __proto__.
      body: `{"model": ${JSON.stringify(server.model)}, "max_tokens": ${MOST_TOKENS}, "temperature": ${sampling.temperature}, "seed": ${'seed' in sampling ? sampling.seed : 0}, "messages": [{"role": "user", "content": "Write a short example."}], "response_format": {"type": "json_schema", "json_schema": {"name": "example", "schema": ${file.schema}}}}`,
    })
    const body = (await response.json()) as {
      readonly error?: { readonly message: string }
      readonly choices?: readonly { readonly finish_reason: string; readonly message: { readonly content: string } }[]
    }
    const { answers } = tally
    if (response.status === 400) answers.refused++
    if (!response.ok) {
      if (response.status === 400) continue
      answers.failed++
      findings.failures.push(`${file.path}: ${response.status} ${body.error?.message}`)
      continue
    }
    const { finish_reason: reason, message } = body.choices![0]!
    if (reason !== 'stop') {
      answers.cut++
      continue
    }
    answers.finished++
    const what = `reply at temperature ${sampling.temperature}`
    await judge({ ...file, text: message.content, what }, tally, { judges, findings })
  }
}

interface Judged extends Pick<SampleFile, 'path' | 'schema'> {
  readonly text: string
  readonly what: string
}

async function judge(
  { path, schema, text, what }: Judged,
  tally: Tally,
  { judges, findings }: Pick<InProcess, 'judges' | 'findings'>,
): Promise<void> {
  const verdicts = Object.entries(await judges.judge(schema, text))
  if (verdicts.every(([, verdict]) => verdict === 'unknown')) tally.unjudged++
  const against = verdicts.filter(([, verdict]) => verdict === 'invalid').map(([name]) => name)
  if (against.length > 0) findings.invalid.push(`${path}, ${what}, by ${against.join(' and ')}: ${text.slice(0, 300)}`)
}

function report(
  samples: readonly (readonly SampleFile[])[],
  tallies: readonly Tally[],
  { refusals, invalid, failures }: Findings,
  { quick, python }: BenchOptions,
): void {
  const share = (part: number, whole: number) => (whole === 0 ? '' : `${part} of ${whole}`)
  const rows = tallies.map(({ taken, compileMs, walks, accepted, answers, unjudged }, index) => {
    const size = samples[index]!.length
    return [
      index === 0 ? `the first ${size}` : `the next ${size}`,
      `${taken} (${((100 * taken) / Math.max(1, size)).toFixed(1)} %)`,
      quick ? '' : String(answers.finished),
      quick ? '' : String(answers.cut),
      quick ? '' : String(answers.refused),
      quick ? '' : String(answers.failed),
      String(walks),
      String(unjudged),
      share(accepted.valid, accepted.ofValid),
      share(accepted.invalid, accepted.ofInvalid),
      compileMs.length === 0 ? '' : `${median(compileMs).toFixed(1)} / ${Math.max(...compileMs).toFixed(0)}`,
    ]
  })
  print(`### Schemas of JSONSchemaBench

${quick ? 'In process only.' : `${SAMPLINGS.length} replies of the shipped model for each schema, of at most ${MOST_TOKENS} tokens.`} Judged by Ajv${python === null ? '' : ' and by jsonschema for Python'}; ${WALKS} random texts of each grammar.

${table(
  [
    'files',
    'taken',
    'finished replies',
    'cut by length',
    'refused',
    'failed',
    'random texts',
    'not judged',
    'valid documents accepted',
    'invalid documents accepted',
    'compilation, ms (median / most)',
  ],
  rows,
)}
Invalid documents: ${invalid.length}. Failures: ${failures.length}.
${[...invalid, ...failures].map((line) => `- ${line}\n`).join('')}
${table(
  ['refused for', 'schemas'],
  [...refusals]
    .toSorted(([, a], [, b]) => b - a)
    .map(([reason, count]) => [reason.replaceAll('|', '\\|'), String(count)]),
)}`)
}
