import type { EngineEvent } from '../../engine.ts'
import { PrefixKey } from '../cache/prefix-key.ts'
import { Sampler, type TokenSampler } from '../native/sampler.ts'
import { ConstrainedSampler } from '../sampling/constrained-sampler.ts'
import { Repetition } from '../sampling/repetition.ts'
import { ThoughtSampler } from '../sampling/thought-sampler.ts'
import type { AdmittedBranch, AdmittedWork } from './admission.ts'
import type { LoadedModel } from './loaded-model.ts'
import { Sequence } from './sequence.ts'
import { SharedPrefix } from './shared-prefix.ts'

/** The odd number nearest to 2^32 over the golden ratio: its multiples are all different modulo 2^32. */
const SEED_STRIDE = 0x9e3779b9
/** llama.cpp takes this seed for "draw one at random". */
const RANDOM_SEED = 0xffffffff

/** A work from its admission to the end of its last completion. */
export class SequenceGroup {
  /** Ascending in order of arrival. */
  readonly id: number
  readonly organisation: string
  readonly work: AdmittedWork
  readonly completions: readonly Sequence[]
  /** Shared prompts, each after its parent. */
  readonly stems: readonly SharedPrefix[]
  /**
   * The prompt that the prefix cache knows it by: the shared prefix or, without one, all of the only prompt. Without
   * the last token, whose logits must be computed in any case.
   */
  readonly path: PrefixKey
  /** Completions that do not run and have not ended, in order. */
  waiting: Sequence[]
  unfinished: number
  hasStarted = false
  /** Whether anything was sent for it. */
  hasSpoken = false
  /** Not sent yet. */
  events: EngineEvent[] = []

  constructor(id: number, organisation: string, work: AdmittedWork, loaded: LoadedModel, seed: number) {
    this.id = id
    this.organisation = organisation
    this.work = work
    const stems: SharedPrefix[] = []
    const add = (parent: SharedPrefix | null, chunks: AdmittedWork['prefix']): SharedPrefix | null => {
      const stem = new SharedPrefix(parent, chunks)
      if (stem.cells === 0) return parent
      stems.push(stem)
      return stem
    }
    const [only] = work.branches
    const alone = work.branches.length === 1 && only!.n === 1
    const prefix = alone ? null : add(null, work.prefix)
    const completions: Sequence[] = []
    this.completions = completions
    try {
      for (const [branchIndex, branch] of work.branches.entries()) {
        const stem = branch.n === 1 ? prefix : add(prefix, branch.suffix)
        const prompt = alone ? [...work.prefix, ...branch.suffix] : branch.n === 1 ? branch.suffix : []
        for (let index = 0; index < branch.n; index++) {
          const sampler = createSampler(loaded, branch, seed + Math.imul(completions.length, SEED_STRIDE))
          const repetition = createRepetition(loaded, branch)
          completions.push(
            new Sequence(this, { branch, branchIndex, index }, { stem, prompt }, { sampler, repetition }),
          )
        }
      }
    } catch (error) {
      this.close()
      throw error
    }
    this.stems = stems
    this.path = PrefixKey.of(alone ? this.completions[0]!.prompt : (prefix?.chunks ?? []))
    this.waiting = [...this.completions]
    this.unfinished = this.completions.length
  }

  /** The stem or completion whose sequence begins with `path`. */
  get root(): SharedPrefix | Sequence | null {
    const [stem] = this.stems
    if (stem !== undefined) return stem.parent === null && this.path.length > 0 ? stem : null
    return this.completions.length === 1 ? this.completions[0]! : null
  }

  /** Frees native memory that is not part of the KV cache. */
  close(): void {
    for (const { sampler } of this.completions) sampler.close()
    this.work.close()
  }
}

/** Negative penalties ask for what this would end. */
function createRepetition({ repetition }: LoadedModel, { sampling }: AdmittedBranch): Repetition | null {
  const { frequencyPenalty, presencePenalty } = sampling
  return repetition === null || frequencyPenalty < 0 || presencePenalty < 0 ? null : new Repetition(repetition)
}

function createSampler(
  { llama, model }: LoadedModel,
  { sampling, maxTokens, constraint, thought }: AdmittedBranch,
  seed: number,
): TokenSampler {
  const unsigned = seed >>> 0
  // This may fail: the thread of a constraint may have ended. Nothing that must be freed is there yet.
  const matcher = constraint?.createMatcher() ?? null
  const sampler = new Sampler(llama, sampling, unsigned === RANDOM_SEED ? 0 : unsigned, model.vocabularySize, maxTokens)
  const reply = matcher === null ? sampler : new ConstrainedSampler(sampler, matcher, model)
  return thought === null ? reply : new ThoughtSampler({ thought, maxTokens, model, free: sampler, reply })
}
