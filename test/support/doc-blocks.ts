import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { writeGguf } from './gguf-writer.ts'
import { pythonWith, skipped } from './python.ts'
import { tinyQwen3 } from './tiny-models/embedding.ts'

/** Blocks of code in the documentation, run as a reader runs them: in a terminal, in the folder of the repository. */

const LANGUAGES = ['sh', 'python', 'ts'] as const
type Language = (typeof LANGUAGES)[number]

export interface Block {
  readonly page: string
  /** Number of its first line. */
  readonly line: number
  readonly language: Language
  readonly code: string
  /** The name in brackets after the language: the block is saved and not run; a later block runs it. */
  readonly file: string | null
  /** What the page says that it prints: the block of `text` that follows. */
  readonly output: string | null
}

/** The pages whose blocks are run. A block after a comment `<!-- not run: REASON -->` is left out. */
export const RUN_PAGES = [
  'README.md',
  'docs/chat.md',
  'docs/clients.md',
  'docs/command-line.md',
  'docs/decisions.md',
  'docs/evaluating.md',
  'docs/responses.md',
  'docs/detect.md',
  'docs/messages.md',
  'docs/watch.md',
  'docs/guides/robot.md',
  'docs/guides/factory-line.md',
  'docs/guides/labelling.md',
  'docs/guides/documents.md',
  'docs/guides/search.md',
  'docs/guides/frigate-home-assistant.md',
] as const

/** A minute of a camera. Only its pace and the form of its lines are looked at, so one suite runs it. */
export const ROBOT_MINUTE = 'npx node pick.ts 300\n'

export async function blocksOf(page: string): Promise<Block[]> {
  const text = await readFile(page, 'utf8')
  const fences = text.matchAll(
    /(?<skip><!-- not run: [^>]+ -->\n)?^```(?<language>\w+)(?: \[(?<file>[\w.-]+)\])?\n(?<code>.*?)^```$(?:\n+^```text\n(?<output>.*?)^```$)?/gms,
  )
  return [...fences].flatMap(({ groups, index }) => {
    const { skip, language, code, file, output } = groups as Record<string, string | undefined>
    if (skip || !LANGUAGES.includes(language as Language)) return []
    const line = text.slice(0, index).split('\n').length
    return [{ page, line, language: language as Language, code: code!, file: file ?? null, output: output ?? null }]
  })
}

/** Whether a page says what any of its blocks prints. */
export const hasOutput = (blocks: readonly Block[]) => blocks.some(({ output }) => output !== null)

/** The files in YAML that a page shows, by their names: questions, and the server's configuration. */
async function yamlOf(page: string): Promise<ReadonlyMap<string, string>> {
  const fences = (await readFile(page, 'utf8')).matchAll(/^```yaml \[([\w.-]+)\]\n(.*?)^```$/gms)
  return new Map([...fences].map(([, name, code]) => [name!, code!]))
}

const SEARCH = 'docs/guides/search.md'
/** The model that its reader pulls. */
const PULLED = 'Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0'

/** What a page expects of its server beyond the defaults. */
async function environmentOf(page: string, directory: string): Promise<Record<string, string>> {
  if (page === 'docs/clients.md') return { LOOKOUT_COMPATIBILITY: 'openai' }
  if (page === 'docs/guides/frigate-home-assistant.md') return { FRIGATE_PASSWORD: 'a-password' }
  if (page !== SEARCH) return {}
  // A small one with random weights stands for it.
  const folder = join(directory, 'pulled')
  await mkdir(folder)
  await writeGguf(join(folder, 'model.gguf'), tinyQwen3('last'))
  await writeFile(
    join(folder, 'card.json'),
    JSON.stringify({ serves: [{ id: PULLED }], engine: { model: 'model.gguf' } }),
  )
  return { LOOKOUT_MODELS: folder }
}

const run = promisify(execFile)
/** Python, with the package `openai` for the blocks that use it. */
const PYTHON = process.env.LOOKOUT_TEST_OPENAI_PYTHON ?? 'python3'

const works = (...code: string[]) =>
  run(PYTHON, ['-c', ...code]).then(
    () => true,
    () => false,
  )
const HAS_PYTHON = await works('')
const HAS_OPENAI = await works('import openai')
const HAS_DECISIONS = await works('import openai; openai.OpenAI(api_key="k").decisions')

const FRAMEWORK = /^(?:import|from) (instructor|pydantic_ai|langchain_openai|llama_index|litellm|dspy)\b/m
const pythons = new Map<string, string | null>()

/** The framework that a block uses, and the Python that has it. */
function frameworkIn(code: string): { readonly module: string; readonly python: string | null } | null {
  const module = FRAMEWORK.exec(code)?.[1]
  if (module === undefined) return null
  if (!pythons.has(module)) pythons.set(module, pythonWith(module))
  return { module, python: pythons.get(module) ?? null }
}

/** Why a block cannot be run on this machine; null if it can. */
export function obstacleOf({ language, code, page, line }: Block): string | null {
  if (language !== 'python') return null
  const at = `SKIPPED: the Python at ${page}:${line}`
  const framework = frameworkIn(code)
  if (framework !== null) {
    return framework.python === null ? skipped(`the Python at ${page}:${line}`, framework.module) : null
  }
  if (!HAS_PYTHON) return `${at} needs ${PYTHON}`
  if (/\bfrom openai import\b/.test(code) && !HAS_OPENAI) {
    return `${at} needs the package openai (LOOKOUT_TEST_OPENAI_PYTHON=/path/to/python)`
  }
  if (code.includes('.decisions.') && !HAS_DECISIONS) return `${at} needs version 3 of the package openai`
  return null
}

export interface Printed {
  readonly stdout: string
  readonly stderr: string
}

/**
 * Stands for the folder of the repository: has what blocks read, and takes what they write. Beside it runs a server as
 * `npm start` starts it: with the settings of a first start, its limits included, and nothing stored.
 */
export class ReaderFolder {
  readonly path: string
  readonly #server: ChildProcess
  readonly #url: string
  readonly #key: string

  private constructor(directory: string, server: ChildProcess, url: string, key: string) {
    this.path = directory
    this.#server = server
    this.#url = url
    this.#key = key
  }

  static async make(page: string): Promise<ReaderFolder> {
    const directory = await mkdtemp(join(tmpdir(), 'lookout-reader-'))
    for (const name of ['docs', 'models', 'node_modules', 'package.json', 'src']) {
      await symlink(resolve(name), join(directory, name))
    }
    for (const [name, code] of await yamlOf(page)) await writeFile(join(directory, name), code)
    await mkdir(join(directory, 'bin'))
    // npx itself takes a second, and asks the registry where it is not sure.
    const npx = `#!/bin/sh
name=$1; shift
case $name in
  lookout) exec '${process.execPath}' src/main.ts "$@" ;;
  node) exec '${process.execPath}' "$@" ;;
esac
echo "npx $name is not known to the tests" >&2; exit 127
`
    await writeFile(join(directory, 'bin/npx'), npx)
    await chmod(join(directory, 'bin/npx'), 0o755)
    const environment = await environmentOf(page, directory)
    const server = spawn(process.execPath, ['src/main.ts', 'serve'], {
      cwd: directory,
      env: { ...environmentIn(directory), LOOKOUT_PORT: '0', LOOKOUT_LOG_LEVEL: 'warn', ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const greeting = await greetingOf(server)
    const url = /^Lookout listens on (\S+)$/m.exec(greeting)![1]!
    const key = await readFile(/^API key: in (\S+), /m.exec(greeting)![1]!, 'utf8')
    return new ReaderFolder(directory, server, url, key.trim())
  }

  /** @throws Error when the block fails, or loads a model: the running server is there to be asked */
  async run({ language, code, file, line }: Block): Promise<Printed> {
    const name = file ?? `block-${line}.${language === 'python' ? 'py' : language}`
    await writeFile(join(this.path, name), code.replaceAll('http://127.0.0.1:8080', this.#url))
    if (file !== null) return { stdout: '', stderr: '' }
    const python = frameworkIn(code)?.python ?? PYTHON
    const program = { sh: 'bash', python, ts: process.execPath }[language]
    const args = language === 'sh' ? ['-euo', 'pipefail', name] : [name]
    const printed = await run(program, args, { cwd: this.path, env: this.#environment, maxBuffer: 2 ** 26 })
    if (/^loading /m.test(printed.stderr)) throw new Error(`The block loads a model: ${printed.stderr}`)
    return printed
  }

  /** The reader has exported the key; `lookout` finds the server at its port. */
  get #environment(): NodeJS.ProcessEnv {
    return {
      ...environmentIn(this.path),
      LOOKOUT_API_KEY: this.#key,
      LOOKOUT_PORT: new URL(this.#url).port,
      // LiteLLM would ask another server for prices, several times.
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#server, 'exit')
    if (this.#server.kill()) await ended
    await rm(this.path, { recursive: true })
  }
}

function environmentIn(directory: string): NodeJS.ProcessEnv {
  const { PATH = '', HOME, LOOKOUT_CACHE_DIR, LOOKOUT_BACKEND } = process.env
  return {
    PATH: `${join(directory, 'bin')}${delimiter}${PATH}`,
    HOME,
    ...(LOOKOUT_CACHE_DIR === undefined ? {} : { LOOKOUT_CACHE_DIR }),
    ...(LOOKOUT_BACKEND === undefined ? {} : { LOOKOUT_BACKEND }),
    LOOKOUT_DATA_DIR: join(directory, 'data'),
  }
}

/** Up to the request that it offers to try. @throws Error with what was printed when the server ends. */
async function greetingOf(server: ChildProcess): Promise<string> {
  let printed = ''
  for await (const data of server.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += data
    if (!/^JSON\n\n/m.test(printed)) continue
    server.stdout!.resume()
    return printed
  }
  throw new Error(`the server of the documentation ended: ${printed}`)
}
