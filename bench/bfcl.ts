/**
 * Forced calls of the functions of the Berkeley Function Calling Leaderboard, as its own handlers describe them: whether none is
 * refused, and the arguments of every finished call are valid. Which function the shipped model chooses is not judged.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inTurns } from '../test/support/in-turns.ts'
import { type Benchmark, type BenchOptions, print, UsageError } from './support/benchmark.ts'
import { type BfclFunction, bfclTools, type FunctionTool } from './support/bfcl-tools.ts'
import { shippedModel } from './support/models.ts'
import { Judges } from './support/schema-judge.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { table } from './support/table.ts'

/** The sets with one turn and functions to call. */
const SETS = /^BFCL_v\d+_((?:simple|multiple|parallel|live)(?:_\w+)?)\.json$/
const QUESTIONS = 126
/** Questions that are also asked of the surfaces that share the path of chats. */
const QUESTIONS_ELSEWHERE = 30
const CLIENTS = 4
const MOST_TOKENS = 400

interface Question {
  readonly id: string
  readonly text: string
  readonly tools: readonly FunctionTool[]
}

/** A call as the reply has it. */
interface Call {
  readonly name: string
  /** As JSON text. */
  readonly input: string
}

interface Outcome {
  readonly status: number
  readonly text: string
  readonly calls: readonly Call[]
  readonly isCut: boolean
}

interface Surface {
  readonly name: string
  readonly path: string
  readonly most: number
  body(question: Question): object
  read(text: string): Pick<Outcome, 'calls' | 'isCut'>
}

const messages = ({ text }: Question) => [{ role: 'user', content: text }]
const asTool = (declared: FunctionTool) => ({ type: 'function', function: declared })

interface ChatReply {
  readonly choices: readonly {
    readonly finish_reason: string | null
    readonly message?: { readonly tool_calls?: readonly ChatCall[] }
    readonly delta?: { readonly tool_calls?: readonly ChatCall[] }
  }[]
}
interface ChatCall {
  readonly index?: number
  readonly function: { readonly name?: string; readonly arguments?: string }
}

function readChat(text: string): Pick<Outcome, 'calls' | 'isCut'> {
  const [choice] = (JSON.parse(text) as ChatReply).choices
  const calls = (choice!.message?.tool_calls ?? []).map(({ function: called }) => ({
    name: called.name!,
    input: called.arguments!,
  }))
  return { calls, isCut: choice!.finish_reason === 'length' }
}

function readStream(text: string): Pick<Outcome, 'calls' | 'isCut'> {
  const calls: { name: string; input: string }[] = []
  let isCut = false
  for (const { choices } of eventsIn(text) as ChatReply[]) {
    for (const { delta, finish_reason: reason } of choices ?? []) {
      isCut ||= reason === 'length'
      for (const { index, function: piece } of delta?.tool_calls ?? []) {
        calls[index!] ??= { name: '', input: '' }
        calls[index!]!.name += piece.name ?? ''
        calls[index!]!.input += piece.arguments ?? ''
      }
    }
  }
  return { calls, isCut }
}

function eventsIn(text: string): unknown[] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)))
}

const chatBody = (question: Question) => ({
  ...{ messages: messages(question), max_tokens: MOST_TOKENS, temperature: 0 },
  tools: question.tools.map(asTool),
})

const SURFACES: readonly Surface[] = [
  {
    name: 'chat, `required`',
    path: '/v1/chat/completions',
    most: QUESTIONS,
    body: (question) => ({ ...chatBody(question), tool_choice: 'required' }),
    read: readChat,
  },
  {
    name: 'chat, a named function',
    path: '/v1/chat/completions',
    most: QUESTIONS,
    body: (question) => ({
      ...{ ...chatBody(question), temperature: 1, seed: 1 },
      tool_choice: { type: 'function', function: { name: question.tools.at(-1)!.name } },
    }),
    read: readChat,
  },
  {
    name: 'chat, streamed',
    path: '/v1/chat/completions',
    most: QUESTIONS_ELSEWHERE,
    body: (question) => ({ ...chatBody(question), temperature: 1, seed: 2, tool_choice: 'required', stream: true }),
    read: readStream,
  },
  {
    name: 'Responses',
    path: '/v1/responses',
    most: QUESTIONS_ELSEWHERE,
    body: ({ text, tools }) => ({
      ...{ input: text, max_output_tokens: MOST_TOKENS, temperature: 1, tool_choice: 'required', store: false },
      tools: tools.map((declared) => ({ type: 'function', ...declared, strict: false })),
    }),
    read: (text) => {
      const { output, status } = JSON.parse(text) as {
        readonly status: string
        readonly output: readonly { readonly type: string; readonly name: string; readonly arguments: string }[]
      }
      const called = output.filter(({ type }) => type === 'function_call')
      return {
        calls: called.map(({ name, arguments: input }) => ({ name, input })),
        isCut: status === 'incomplete',
      }
    },
  },
  {
    name: 'Messages',
    path: '/v1/messages',
    most: QUESTIONS_ELSEWHERE,
    body: (question) => ({
      ...{ messages: messages(question), max_tokens: MOST_TOKENS, temperature: 1, tool_choice: { type: 'any' } },
      tools: question.tools.map(({ name, description, parameters }) => ({
        name,
        description,
        input_schema: parameters,
      })),
    }),
    read: (text) => {
      const { content, stop_reason: reason } = JSON.parse(text) as {
        readonly stop_reason: string
        readonly content: readonly { readonly type: string; readonly name: string; readonly input: unknown }[]
      }
      const called = content.filter(({ type }) => type === 'tool_use')
      return {
        calls: called.map(({ name, input }) => ({ name, input: JSON.stringify(input) })),
        isCut: reason === 'max_tokens',
      }
    },
  },
]

export const bfcl: Benchmark = {
  summary: 'forced calls of the functions of bfcl-eval (--data FOLDER): whether the arguments are valid',
  withPeer: false,

  async run(options) {
    const questions = await readQuestions(options)
    const model = await shippedModel()
    const environment = { LOOKOUT_COMPATIBILITY: 'openai' }
    await using server = await startLookout(model.cardFile, model.id, { environment })
    await using judges = new Judges(options.python)
    const rows: string[][] = []
    const wrong: string[] = []
    for (const surface of SURFACES) {
      rows.push(await measure(surface, questions.slice(0, surface.most), { server, judges, wrong }))
    }
    print(`### Functions of BFCL

Replies of the shipped model, of at most ${MOST_TOKENS} tokens, with \`compatibility: openai\`. Judged by Ajv${options.python === null ? '' : ' and by jsonschema for Python'}.

${table(['asked by', 'questions', 'finished', 'cut by length', 'refused', 'failed', 'calls', 'not judged', 'invalid'], rows)}
${wrong.map((line) => `- ${line}\n`).join('')}`)
  },
}

async function readQuestions({ data, limit }: BenchOptions): Promise<Question[]> {
  if (data === null) throw new UsageError('--data names the folder `bfcl_eval/data` of the package bfcl-eval.')
  const hash = (id: string) => createHash('sha256').update(id).digest('hex')
  const sets = (await readdir(data)).filter((file) => SETS.test(file)).sort()
  if (sets.length === 0) throw new UsageError(`${data} holds no sets such as BFCL_v4_simple_python.json.`)
  const ordered = await Promise.all(
    sets.map(async (file) => {
      const lines = (await readFile(join(data, file), 'utf8')).split('\n').filter((line) => line !== '')
      const entries = lines.map((line) => JSON.parse(line) as BfclEntry)
      const sorted = entries.map((entry) => [hash(entry.id), entry] as const).sort(([a], [b]) => (a < b ? -1 : 1))
      return sorted.map(([, entry]) => questionOf(entry, SETS.exec(file)![1]!))
    }),
  )
  // Evenly: the first of each set, then the second of each.
  const rounds = Array.from({ length: QUESTIONS }, (_, round) => ordered.flatMap((set) => set.slice(round, round + 1)))
  return rounds.flat().slice(0, limit ?? QUESTIONS)
}

interface BfclEntry {
  readonly id: string
  readonly question: readonly (readonly { readonly role: string; readonly content: string }[])[]
  readonly function: readonly BfclFunction[]
}

function questionOf({ id, question, function: functions }: BfclEntry, set: string): Question {
  const text = question[0]!.map(({ content }) => content).join('\n')
  return { id, text, tools: bfclTools(functions, set) }
}

interface Measuring {
  readonly server: BenchServer
  readonly judges: Judges
  readonly wrong: string[]
}

async function measure(
  surface: Surface,
  questions: readonly Question[],
  { server, judges, wrong }: Measuring,
): Promise<string[]> {
  const count = { finished: 0, cut: 0, refused: 0, failed: 0, calls: 0, unjudged: 0, invalid: 0 }
  await inTurns(questions, CLIENTS, async (question) => {
    const { status, text, calls, isCut } = await ask(surface, question, server)
    const report = (problem: string) => wrong.push(`${surface.name}, ${question.id}: ${problem}`)
    if (status !== 200) {
      count[status < 500 ? 'refused' : 'failed']++
      report(`${status} ${text.slice(0, 300)}`)
      return
    }
    if (isCut) {
      count.cut++
      return
    }
    count.finished++
    if (calls.length === 0) report(`no call: ${text.slice(0, 300)}`)
    for (const { name, input } of calls) {
      count.calls++
      const called = question.tools.find((declared) => declared.name === name)
      const verdicts = called === undefined ? [] : await verdictsOn(judges, called, input)
      if (verdicts.length > 0 && verdicts.every((verdict) => verdict === 'unknown')) count.unjudged++
      if (called !== undefined && !verdicts.includes('invalid')) continue
      count.invalid++
      report(`${name}(${input.slice(0, 200)}) against ${JSON.stringify(called?.parameters)}`)
    }
  })
  const { finished, cut, refused, failed, calls, unjudged, invalid } = count
  return [surface.name, ...[questions.length, finished, cut, refused, failed, calls, unjudged, invalid].map(String)]
}

async function verdictsOn(judges: Judges, { parameters }: FunctionTool, input: string): Promise<string[]> {
  try {
    JSON.parse(input)
  } catch {
    return ['invalid']
  }
  return Object.values(await judges.judge(JSON.stringify(parameters), input))
}

async function ask(surface: Surface, question: Question, server: BenchServer): Promise<Outcome> {
  const response = await fetch(server.url + surface.path, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: server.model, ...surface.body(question) }),
  })
  const text = await response.text()
  const { status } = response
  return { status, text, ...(response.ok ? surface.read(text) : { calls: [], isCut: false }) }
}
