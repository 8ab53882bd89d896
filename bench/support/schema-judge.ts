/** Judges documents independently of the server: with Ajv, and with Python's `jsonschema` where there is one. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { GuardedProcess } from '../../src/lib/guarded/guarded-process.ts'
import { type Attempt, answerOf } from '../../src/lib/guarded/guarded-program.ts'
import type { SchemaAnswer, SchemaQuestion } from './schema-program.ts'

const LIMIT_MS = 20_000

/** What of a document was found: `unknown` where the judge does not take the schema, or does not end. */
export type Verdict = 'valid' | 'invalid' | 'unknown'

/** A process that answers questions about schemas within a time limit. */
export class SchemaProcess implements AsyncDisposable {
  readonly #process = new GuardedProcess<SchemaQuestion, Attempt<SchemaAnswer>>({
    program: new URL('schema-program.ts', import.meta.url),
    limitMs: LIMIT_MS,
    memoryBytes: 4 * 2 ** 30,
    heapMb: 2048,
    idleMs: null,
  })

  /** @throws ProcessEnded where it takes too long, or too much memory; Error of what went wrong. */
  async ask<Answer extends SchemaAnswer>(question: SchemaQuestion): Promise<Answer> {
    return answerOf(await this.#process.ask(question)) as Answer
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.stop()
  }
}

export class Judges implements AsyncDisposable {
  readonly #ajv = new SchemaProcess()
  readonly #python: PythonJudge | null

  /** @param python an interpreter with `jsonschema`; null for none. */
  constructor(python: string | null) {
    this.#python = python === null ? null : new PythonJudge(python)
  }

  /** Each judge's verdict on a document, by its name. */
  async judge(schema: string, text: string): Promise<Record<string, Verdict>> {
    const ajv = await this.#ajv.ask<readonly boolean[]>({ ask: 'judge', schema, texts: [text] }).then(
      ([isValid]): Verdict => (isValid ? 'valid' : 'invalid'),
      (): Verdict => 'unknown',
    )
    return this.#python === null ? { Ajv: ajv } : { Ajv: ajv, jsonschema: await this.#python.judge(schema, text) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ajv[Symbol.asyncDispose]()
    this.#python?.stop()
  }
}

/** One process that reads a line for each document and writes a line for each verdict. */
class PythonJudge {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>
  #last: Promise<unknown> = Promise.resolve()

  constructor(python: string) {
    const program = fileURLToPath(new URL('schema_judge.py', import.meta.url))
    this.#child = spawn(python, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]()
  }

  async judge(schema: string, text: string): Promise<Verdict> {
    const asked = this.#last.then(async () => {
      this.#child.stdin!.write(`${JSON.stringify({ schema, text })}\n`)
      const { value, done } = await this.#lines.next()
      if (done) throw new Error('Python with jsonschema is not there, or has ended.')
      return value as Verdict
    })
    this.#last = asked.catch(() => {})
    return asked
  }

  stop(): void {
    this.#child.kill('SIGKILL')
  }
}
