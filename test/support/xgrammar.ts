import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface, type Interface } from 'node:readline'
import type { Vocabulary } from '../../src/inference/constraints/tokens/token-trie.ts'

/** The bits of the tokens that may come: at the start of each text, and after each of its bytes until one is refused. */
type Masks = readonly (readonly number[])[]
type Answer = { readonly masks: readonly Masks[] } | { readonly error: string }

/** XGrammar in a process of Python. */
export class XGrammar {
  readonly #process: ChildProcess
  readonly #lines: Interface
  readonly #answers: AsyncIterator<string>

  /** @param python the interpreter of an environment with `xgrammar`. */
  constructor(python: string, vocabulary: Vocabulary) {
    const script = new URL('follow_xgrammar.py', import.meta.url).pathname
    this.#process = spawn(python, [script], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.#lines = createInterface({ input: this.#process.stdout! })
    this.#answers = this.#lines[Symbol.asyncIterator]()
    this.#send(vocabulary)
  }

  /** @param texts of bytes, as characters of Latin-1. */
  async follow(ebnf: string, texts: readonly string[]): Promise<readonly Masks[]> {
    this.#send({ ebnf, texts })
    const { value, done } = await this.#answers.next()
    if (done) throw new Error('XGrammar has ended.')
    const answer = JSON.parse(value) as Answer
    if ('error' in answer) throw new Error(answer.error)
    return answer.masks
  }

  close(): void {
    this.#process.stdin!.end()
    this.#lines.close()
  }

  #send(message: unknown): void {
    this.#process.stdin!.write(`${JSON.stringify(message)}\n`)
  }
}
