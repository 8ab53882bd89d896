import type { EngineEvent } from '../../../contract/generation.ts'
import type { Priority } from '../../../contract/priority.ts'
import { createRepetition } from '../../../contract/repetition.ts'
import { PrefixKey } from '../../cache/prefix-key.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { AdmittedWork } from '../admission.ts'
import type { LoadedModel } from '../loaded-model.ts'
import type { KvHolder } from './kv-holder.ts'
import { Sequence } from './sequence.ts'
import { createSampler, promptsOf, seedOf } from './sequence-sampler.ts'
import { SharedPrefix } from './shared-prefix.ts'

/** An admitted, unfinished sequence with its group. */
export interface RunningSequence {
  readonly group: SequenceGroup
  readonly sequence: Sequence
}

/** Id and owner of a group. */
export interface GroupIdentity {
  readonly id: number
  readonly organisation: string
  readonly priority?: Priority | undefined
  readonly isTransient?: boolean | undefined
}

/** A stage of a traced group. `encoded`: the encoder has completed a chunk of its media in `ms`. */
export type StageReport = { readonly type: 'started' } | { readonly type: 'encoded'; readonly ms: number }

/**
 * One request from its admission to the end of its last sequence. It owns its waiting sequences and unsent events. The
 * sequence manager takes sequences out of it and puts preempted ones back; the scheduler adds events, and the event sender
 * takes them.
 */
export class SequenceGroup {
  /** Ascending in order of arrival. */
  readonly id: number
  readonly organisation: string
  readonly priority: Priority
  /** Whether none of its cells are kept once it has ended. */
  readonly isTransient: boolean
  readonly work: AdmittedWork
  readonly sequences: readonly Sequence[]
  /** Each after its parent. */
  readonly prefixes: readonly SharedPrefix[]
  /** Holds the first part of the prompt: the prefix of all branches, or the only sequence. Null if nothing is shared. */
  readonly root: KvHolder | null
  /**
   * Key of the root's part of the prompt, for the prefix cache. It excludes the prompt's last token, whose logits are always
   * computed.
   */
  readonly key: PrefixKey
  /** Null if it is not traced. */
  report: ((stage: StageReport) => void) | null = null
  /** In order. */
  readonly #waiting: Sequence[]
  #unfinished: number
  #hasStarted = false
  #hasSpoken = false
  #events: EngineEvent[] = []

  constructor(
    { id, organisation, priority = 'interactive', isTransient = false }: GroupIdentity,
    work: AdmittedWork,
    loaded: LoadedModel,
    seed: number,
  ) {
    this.id = id
    this.organisation = organisation
    this.priority = priority
    this.isTransient = isTransient
    this.work = work
    const { branches } = work
    const isAlone = branches.length === 1 && branches[0]!.n === 1
    const prefixes: SharedPrefix[] = []
    const sequences: Sequence[] = []
    this.prefixes = prefixes
    this.sequences = sequences
    const share = (parent: SharedPrefix | null, chunks: readonly PromptChunk[]): SharedPrefix | null => {
      const prefix = new SharedPrefix(parent, chunks)
      if (prefix.cells === 0) return parent
      prefixes.push(prefix)
      return prefix
    }
    const prefix = isAlone ? null : share(null, work.prefix)
    const prompts = promptsOf(work)
    try {
      for (const [branchIndex, branch] of branches.entries()) {
        const parent = branch.n === 1 ? prefix : share(prefix, branch.suffix)
        const prompt = isAlone ? [...work.prefix, ...branch.suffix] : branch.n === 1 ? branch.suffix : []
        for (let index = 0; index < branch.n; index++) {
          const { seed: own } = branch.sampling
          const drawn = own === undefined ? seedOf(seed, sequences.length) : seedOf(own, index)
          const sampling = createSampler(loaded, branch, drawn, prompts[branchIndex]!)
          const repetition = createRepetition(loaded.repetition, branch.sampling)
          sequences.push(new Sequence({ branch, branchIndex, index }, { parent, prompt }, { ...sampling, repetition }))
        }
      }
    } catch (error) {
      this.close()
      throw error
    }
    this.root = isAlone ? sequences[0]! : prefix
    this.key = PrefixKey.of(this.root?.chunks ?? [], work.adapter?.key)
    // Completions of no tokens need no step.
    this.#waiting = sequences.filter(({ branch }) => branch.maxTokens > 0)
    this.#unfinished = this.#waiting.length
    this.#events = sequences.filter(({ branch }) => branch.maxTokens === 0).map((sequence) => sequence.finish('length'))
  }

  /** Sequences that are neither running nor finished, in order. */
  get waiting(): readonly Sequence[] {
    return this.#waiting
  }

  /** Whether a sequence was ever admitted. */
  get hasStarted(): boolean {
    return this.#hasStarted
  }

  get isFinished(): boolean {
    return this.#unfinished === 0
  }

  /** Whether any event was sent. */
  get hasSpoken(): boolean {
    return this.#hasSpoken
  }

  /** Not sent yet. */
  get events(): readonly EngineEvent[] {
    return this.#events
  }

  /** Takes out the first of the waiting sequences. */
  admit(): Sequence {
    const sequence = this.#waiting.shift()
    if (sequence === undefined) throw new Error('No sequence waits.')
    if (!this.#hasStarted) this.report?.({ type: 'started' })
    this.#hasStarted = true
    return sequence
  }

  /** Puts an admitted sequence back, before those that came later. */
  preempt(sequence: Sequence): void {
    const after = this.#waiting.findLastIndex(({ rank }) => rank < sequence.rank)
    this.#waiting.splice(after + 1, 0, sequence)
  }

  /** Counts a sequence that has finished. */
  finish(): void {
    this.#unfinished--
  }

  emit(...events: readonly EngineEvent[]): void {
    this.#events.push(...events)
  }

  /** Returns and clears the unsent events. */
  takeEvents(): readonly EngineEvent[] {
    const events = this.#events
    this.#events = []
    this.#hasSpoken = true
    return events
  }

  close(): void {
    this.work.close()
  }
}
