/**
 * Runs test files again and again, to find tests that fail by chance: some runs on an idle machine, some beside two busy
 * programs. docs/contributing/testing.md says how to use it.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { JsonTestResults as Report } from 'vitest/node'

/** What continuous integration runs. */
const PROJECTS = ['parallel', 'native', 'alone', 'browser', 'long', 'weights']
const BUSY_PROGRAMS = 2
/** Runs that go on at once beside the busy programs, which take less of the machine from two than from one. */
const BUSY_RUNS = 2
/** They compile into `dist/`, so one run at a time has them. */
const ONE_AT_A_TIME = ['test/package.test.ts']
const VITEST = 'node_modules/vitest/vitest.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    idle: { type: 'string', default: '5' },
    busy: { type: 'string', default: '5' },
    often: { type: 'string', default: '4' },
    results: { type: 'string', default: 'test/repeats.jsonl' },
  },
})

interface TestFile {
  readonly path: string
  readonly project: string
  /** Whether it has processes, sockets or clocks. */
  readonly risky: boolean
}

/** One run of one file. */
interface Run {
  readonly file: string
  /** The first test that failed, with the first line of its message; null where all passed. */
  readonly failure: string | null
}

/** The runs of one file by one call of this command; a line of the results. Lines of several machines add up. */
interface Runs {
  readonly commit: string
  readonly file: string
  idle: number
  busy: number
  readonly failures: string[]
}

const OTHERS = /'node:(?:child_process|cluster|dgram|http|https|net|tls|worker_threads)'/
const CLOCKS = /'node:timers\/promises'|\bset(?:Timeout|Interval)\(|\b(?:performance|Date)\.now\(/

/** Whether the file uses clocks, or starts processes or opens sockets, itself or with what it imports from `support/`. */
function isRisky(path: string): boolean {
  const text = readFileSync(path, 'utf8')
  const supports = [...text.matchAll(/from '(\.[^']*\bsupport\/[^']+\.ts)'/g)].map(([, name]) =>
    join(dirname(path), name!),
  )
  return CLOCKS.test(text) || [path, ...supports].some((module) => OTHERS.test(readFileSync(module, 'utf8')))
}

/** The files of the named projects, or whose paths contain one of the given texts. */
function testFiles(): TestFile[] {
  const named = positionals.filter((name) => PROJECTS.includes(name))
  const filters = positionals.filter((name) => !PROJECTS.includes(name))
  const projects = named.length > 0 ? named : PROJECTS
  const list = [VITEST, 'list', '--filesOnly', '--json', ...projects.map((name) => `--project=${name}`), ...filters]
  const listed = JSON.parse(execFileSync(process.execPath, list, { encoding: 'utf8' })) as {
    file: string
    projectName: string
  }[]
  return listed.map(({ file, projectName }) => {
    const path = relative('.', file)
    return { path, project: projectName, risky: isRisky(path) }
  })
}

/** Node's processes that run now; they end with this one. */
const running = new Set<ChildProcess>()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, () => {
    for (const child of running) child.kill()
    process.kill(process.pid, signal)
  })
}

function start(args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 2, 2] })
  running.add(child)
  child.once('exit', () => running.delete(child))
  return child
}

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()

/** The lines so far whose test file has not changed since. */
function pastRuns(): Runs[] {
  if (!existsSync(values.results)) return []
  const lines = readFileSync(values.results, 'utf8').split('\n').filter(Boolean)
  const runs = lines.map((line) => JSON.parse(line) as Runs)
  const changed = new Map(
    [...new Set(runs.map(({ commit }) => commit))].map((commit) => [
      commit,
      new Set(git('diff', '--name-only', commit).split('\n')),
    ]),
  )
  return runs.filter(({ commit, file }) => !changed.get(commit)!.has(file))
}

/** Runs the files once on an idle machine, or several times at once beside busy programs. */
async function runFiles(files: readonly TestFile[], busy: boolean): Promise<Run[]> {
  if (!busy) return runOnce(files)
  const programs = Array.from({ length: BUSY_PROGRAMS }, () => start(['-e', 'for (;;);']))
  try {
    const shared = files.filter(({ path }) => !ONE_AT_A_TIME.includes(path))
    const runs = Array.from({ length: BUSY_RUNS }, (_, index) => (index === 0 ? files : shared))
    return (await Promise.all(runs.filter((run) => run.length > 0).map(runOnce))).flat()
  } finally {
    for (const program of programs) program.kill()
  }
}

/** Runs the files together, once, as `npm test` would. */
async function runOnce(files: readonly TestFile[]): Promise<Run[]> {
  const directory = mkdtempSync(join(tmpdir(), 'lookout-repeat-'))
  const output = join(directory, 'report.json')
  try {
    const options = [
      `--project=${files[0]!.project}`,
      '--reporter=default',
      '--reporter=json',
      `--outputFile=${output}`,
    ]
    const paths = files.map(({ path }) => resolve(path))
    const vitest = start([VITEST, 'run', ...options, ...paths])
    const [code] = await once(vitest, 'exit')
    const report = existsSync(output) ? (JSON.parse(readFileSync(output, 'utf8')) as Report) : { testResults: [] }
    const runs = files.map(({ path }): Run => {
      const result = report.testResults.find(({ name }) => name === resolve(path))
      if (result === undefined) return { file: path, failure: `no result: Vitest exited with ${code}` }
      const test = result.assertionResults.find(({ status }) => status === 'failed')
      const failure = test ? `${test.fullName}: ${test.failureMessages?.[0]}` : result.message
      return { file: path, failure: result.status === 'failed' ? failure.split('\n', 1)[0]! : null }
    })
    const unexplained = code !== 0 && runs.every(({ failure }) => failure === null)
    if (!unexplained) return runs
    return [...runs, { file: files[0]!.project, failure: `Vitest exited with ${code}; no test failed` }]
  } finally {
    rmSync(directory, { recursive: true })
  }
}

const files = testFiles()
const commit = git('rev-parse', '--short=10', 'HEAD')
const past = pastRuns()
const own = new Map<string, Runs>()
const runsOf = (path: string) => [...past, ...own.values()].filter(({ file }) => file === path)
const countOf = (path: string, busy: boolean) =>
  runsOf(path).reduce((sum, runs) => sum + (busy ? runs.busy : runs.idle), 0)
const failuresOf = (path: string) => runsOf(path).flatMap(({ failures }) => failures)

/** Adds a run, and writes the lines of this call behind the past ones. */
function add({ file, failure }: Run, busy: boolean): void {
  const runs = own.get(file) ?? { commit, file, idle: 0, busy: 0, failures: [] }
  own.set(file, runs)
  if (busy) runs.busy++
  else runs.idle++
  if (failure !== null) runs.failures.push(failure.replaceAll(process.cwd(), '.').slice(0, 300))
  const lines = [...past, ...own.values()].map((line) => JSON.stringify(line))
  writeFileSync(values.results, `${lines.join('\n')}\n`)
}

for (const project of PROJECTS) {
  for (const busy of [false, true]) {
    const times = Number(busy ? values.busy : values.idle)
    for (;;) {
      const due = files.filter(
        (file) =>
          file.project === project && countOf(file.path, busy) < times * (file.risky ? Number(values.often) : 1),
      )
      if (due.length === 0) break
      for (const run of await runFiles(due, busy)) add(run, busy)
    }
  }
}

/** Files that never failed share a row. */
const rows = new Map<string, number>()
const unexplained = PROJECTS.filter((name) => runsOf(name).length > 0)
for (const { path, project, risky } of [
  ...files,
  ...unexplained.map((name) => ({ path: name, project: name, risky: false })),
]) {
  const counts = `${countOf(path, false)} | ${countOf(path, true)}`
  const failures = failuresOf(path)
  const file = failures.length > 0 ? `\`${path}\`` : `${project}${risky ? ', with processes, sockets or clocks' : ''}`
  const test = (failures[0] ?? '').replaceAll('|', '\\|')
  const row = `${file} | ${counts} | ${failures.length} | ${test} |`
  rows.set(row, (rows.get(row) ?? 0) + 1)
}
console.log('\n| files | | runs idle | runs busy | failures | first failing test |\n|---|---|---|---|---|---|')
for (const [row, count] of rows) console.log(`| ${count} | ${row}`)
