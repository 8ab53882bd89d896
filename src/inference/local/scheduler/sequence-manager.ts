import { FairQueue } from '../../../lib/fair-queue.ts'
import type { KvSequence, SavedSequence } from '../cache/kv-cache.ts'
import { PrefixCache, type PrefixMatch, SHORTEST_MATCH } from '../cache/prefix-cache.ts'
import type { PrefixKey } from '../cache/prefix-key.ts'
import type { LoadedModel } from './loaded-model.ts'
import { PrefillCursor } from './prefill-cursor.ts'
import type { Sequence } from './sequence.ts'
import type { SequenceGroup } from './sequence-group.ts'
import type { SharedPrefix } from './shared-prefix.ts'

interface Room {
  cells: number
  sequences: number
}

/** Room that a completion should find for its first tokens, so that it is not interrupted at once. */
const HEADROOM_CELLS = 32
/** What the prefix cache may take of the process's memory. */
const PREFIX_CACHE_BYTES = 256 * 2 ** 20

/**
 * Decides who is in the KV cache: starts completions in fair order, interrupts the youngest when cells run out (they
 * are computed anew later), and has the prefix cache keep what ended work leaves behind.
 */
export class SequenceManager {
  readonly #loaded: LoadedModel
  readonly #queue = new FairQueue<SequenceGroup>()
  readonly cache: PrefixCache
  /** Oldest first. */
  readonly running: Sequence[] = []
  readonly #openPrefixes = new Set<SharedPrefix>()
  /** Requests of which nothing has started yet. */
  waitingRequests = 0
  /** Prompt tokens that were there already when a prompt was opened, since the start. */
  reusedTokens = 0
  /** Prompts of which so much was there already, and others. */
  prefixHits = 0
  prefixMisses = 0
  interruptions = 0
  #lastAge = 0
  /** Nothing starts between an interruption for lack of room and the next end of a completion. */
  #congested = false

  constructor(loaded: LoadedModel, prefixCacheCells: number) {
    this.#loaded = loaded
    this.cache = new PrefixCache(loaded.kv, { cells: prefixCacheCells, bytes: PREFIX_CACHE_BYTES })
  }

  /** The request whose turn it is to start something. */
  get next(): SequenceGroup | undefined {
    return this.#queue.head
  }

  /** Requests of which something has not started, or must start anew. */
  get queued(): readonly SequenceGroup[] {
    return this.#queue.items
  }

  enqueue(request: SequenceGroup): void {
    this.#queue.add(request)
    this.waitingRequests++
  }

  /** Starts completions, as many as there is room for. Nobody overtakes one that waits for room. */
  start(): void {
    while (!this.#congested && this.running.length < this.#loaded.maxRunning) {
      const completion = this.#queue.head?.waiting[0]
      if (completion === undefined || !this.#makeRoomFor(completion)) return
      this.#begin(completion)
    }
  }

  /** What there is already of a request's prompt, in the prefix cache or with running work of its organisation. */
  findPrefix({ organisation, path }: SequenceGroup): PrefixMatch | null {
    let best = this.cache.find(organisation, path)
    for (const { request } of this.running) {
      const sequence = request.root?.sequence ?? null
      if (sequence === null || request.organisation !== organisation) continue
      const cut = request.path.commonPrefix(path, sequence.cells)
      // Cells that are shared cost less than copied ones.
      if (cut.cells >= SHORTEST_MATCH && cut.cells >= (best?.cut.cells ?? 0)) best = { source: sequence, cut }
    }
    return best
  }

  /** Takes note of what has been prefilled: opens the sequences that waited for it. */
  settle(): void {
    for (const completion of this.running) {
      if (completion.feed?.isDone) completion.feed = null
      if (completion.sequence === null) this.#open(completion)
    }
  }

  /** Gains some cells, if there is any way. The youngest completion is interrupted last, the oldest never. */
  reclaim(): boolean {
    if (this.#closeIdlePrefix(null)) return true
    const youngest = this.running.at(-1)
    if (youngest === undefined || this.running.length === 1) return false
    this.#interrupt(youngest)
    return true
  }

  /** Ends a completion that is running. */
  end(completion: Sequence): void {
    const { request, sequence } = completion
    this.#vacate(completion)
    if (sequence !== null) this.#leave(completion, sequence)
    if (--request.unfinished === 0) this.#closePrefixes(request, true)
  }

  /** Ends all of a request. @param keep whether what it computed may serve later requests. */
  drop(request: SequenceGroup, keep: boolean): void {
    this.#queue.remove(request)
    if (!request.hasStarted) this.waitingRequests--
    for (const completion of this.running.filter((other) => other.request === request)) {
      const { sequence } = completion
      this.#vacate(completion)
      if (sequence === null) continue
      if (keep) this.#leave(completion, sequence)
      else this.#loaded.kv.release(sequence)
    }
    this.#closePrefixes(request, keep)
    this.#congested = false
  }

  #begin(completion: Sequence): void {
    const { request } = completion
    this.#queue.rotate()
    request.waiting.shift()
    if (request.waiting.length === 0) this.#queue.remove(request)
    if (!request.hasStarted) this.waitingRequests--
    request.hasStarted = true
    if (completion.age === Number.POSITIVE_INFINITY) completion.age = ++this.#lastAge
    // An interrupted one is older than others that run by now.
    const after = this.running.findLastIndex((other) => other.age < completion.age)
    this.running.splice(after + 1, 0, completion)
    completion.stem?.addUser(1)
    this.#open(completion)
  }

  /** Gives a completion its sequence, once there is what it continues. */
  #open(completion: Sequence): void {
    const { stem } = completion
    if (stem !== null && !this.#openPrefix(stem, completion)) return
    const sequence = stem === null ? this.#forkFound(completion, completion) : this.#loaded.kv.fork(stem.sequence)
    if (sequence === null) return
    completion.sequence = sequence
    const feed = new PrefillCursor(sequence, completion.pendingChunks, stem === null ? sequence.cells : 0)
    completion.feed = feed.isDone ? null : feed
  }

  /** @returns whether all of the stem is in the KV cache. */
  #openPrefix(stem: SharedPrefix, completion: Sequence): boolean {
    if (stem.feed?.isDone) stem.feed = null
    if (stem.sequence !== null) return stem.feed === null
    const { parent } = stem
    if (parent !== null && !this.#openPrefix(parent, completion)) return false
    const sequence = parent === null ? this.#forkFound(stem, completion) : this.#loaded.kv.fork(parent.sequence)
    if (sequence === null) return false
    const feed = new PrefillCursor(sequence, stem.chunks, parent === null ? sequence.cells : 0)
    stem.sequence = sequence
    stem.feed = feed.isDone ? null : feed
    this.#openPrefixes.add(stem)
    return stem.isReady
  }

  /**
   * A new sequence, with as much of the request's prompt as there is already; null when it is better to wait, since
   * others are computing more of it.
   */
  #forkFound(holder: SharedPrefix | Sequence, completion: Sequence): KvSequence | null {
    const { kv } = this.#loaded
    const { request } = completion
    if (request.root !== holder) return kv.fork(null)
    const match = this.findPrefix(request)
    if (this.#isComing(completion, match?.cut.cells ?? 0)) return null
    if (match === null || (isSaved(match.source) && match.source.cells > kv.freeCells)) {
      this.prefixMisses++
      return kv.fork(null)
    }
    const { source, cut } = match
    this.prefixHits++
    this.reusedTokens += cut.cells
    return isSaved(source) ? kv.restore(source, cut) : kv.fork(source, cut)
  }

  /** Whether an older completion is prefilling more of the prompt than the cells that were found. */
  #isComing({ request, age }: Sequence, found: number): boolean {
    return this.running.some((other) => {
      const { organisation, root, path } = other.request
      if (other.age >= age || other.request === request || organisation !== request.organisation) return false
      if (!root?.feed || root.sequence === null) return false
      const { cells } = path.commonPrefix(request.path)
      return cells >= found + SHORTEST_MATCH && cells > root.sequence.cells
    })
  }

  #makeRoomFor(completion: Sequence): boolean {
    const { kv } = this.#loaded
    const reserved = this.#reserved()
    const { tokens, branch } = completion
    const headroom = this.running.length === 0 ? 0 : Math.min(HEADROOM_CELLS, branch.maxTokens - tokens.length)
    for (;;) {
      const needed = this.#needed(completion)
      const enoughCells = reserved.cells + needed.cells + headroom <= kv.freeCells
      if (enoughCells && reserved.sequences + needed.sequences <= kv.freeSequences) return true
      if (this.running.length > 0 || !this.#closeIdlePrefix(completion)) return false
    }
  }

  /** What running completions are still to take for their prompts and next tokens. */
  #reserved(): Room {
    const room = { cells: 0, sequences: 0 }
    const seen = new Set<SharedPrefix>()
    for (const completion of this.running) {
      if (completion.sequence === null) {
        room.cells += completion.pendingCells
        room.sequences++
      } else room.cells += 1 + (completion.feed?.remaining ?? 0)
      for (let stem = completion.stem; stem !== null && !stem.isReady && !seen.has(stem); stem = stem.parent) {
        seen.add(stem)
        room.cells += stem.feed?.remaining ?? stem.cells
        if (stem.sequence === null) room.sequences++
      }
    }
    return room
  }

  /** What a completion would add to that. */
  #needed(completion: Sequence): Room {
    const { request } = completion
    const room = { cells: completion.pendingCells, sequences: 1 }
    let root: SharedPrefix | Sequence = completion
    for (let stem = completion.stem; stem !== null && stem.users === 0 && !stem.isReady; stem = stem.parent) {
      room.cells += stem.feed?.remaining ?? stem.cells
      if (stem.sequence === null) room.sequences++
      root = stem
    }
    if (root === request.root && root.sequence === null) {
      const match = this.findPrefix(request)
      if (match !== null && !isSaved(match.source)) room.cells -= match.cut.cells
    }
    return room
  }

  #interrupt(completion: Sequence): void {
    const { request, sequence } = completion
    this.#vacate(completion)
    if (sequence !== null) this.#loaded.kv.release(sequence)
    const after = request.waiting.findLastIndex((other) => other.age < completion.age)
    request.waiting.splice(after + 1, 0, completion)
    this.#queue.add(request)
    this.interruptions++
    this.#congested = true
  }

  /** Takes a completion out of the running ones; its sequence is the caller's now. */
  #vacate(completion: Sequence): void {
    this.running.splice(this.running.indexOf(completion), 1)
    completion.stem?.addUser(-1)
    completion.sequence = null
    completion.feed = null
    this.#congested = false
  }

  /** Gives back the sequence of an ended completion; the prefix cache copies it if it may be of use there. */
  #leave(completion: Sequence, sequence: KvSequence): void {
    const { request, branch, tokens } = completion
    if (request.root === completion) this.#keep(request, request.path.concat([branch.lastToken, ...tokens]), sequence)
    this.#loaded.kv.release(sequence)
  }

  #closePrefixes(request: SequenceGroup, keep: boolean): void {
    for (const stem of request.stems) {
      this.#openPrefixes.delete(stem)
      if (keep && stem.sequence !== null && stem === request.root) this.#keep(request, request.path, stem.sequence)
      stem.close(this.#loaded.kv)
    }
  }

  /** @param path what the sequence holds, or would hold had it been finished. */
  #keep(request: SequenceGroup, path: PrefixKey, sequence: KvSequence): void {
    const held = path.slice(sequence.cells)
    if (held !== null) this.cache.add(request.organisation, held, sequence)
  }

  /** Frees the youngest stem that no running completion needs. @param except completion whose stems stay. */
  #closeIdlePrefix(except: Sequence | null): boolean {
    const spared = new Set<SharedPrefix>()
    for (let stem = except?.stem ?? null; stem !== null; stem = stem.parent) spared.add(stem)
    const idle = [...this.#openPrefixes].findLast((stem) => stem.users === 0 && !spared.has(stem))
    if (idle === undefined) return false
    this.#openPrefixes.delete(idle)
    idle.close(this.#loaded.kv)
    return true
  }
}

function isSaved(source: KvSequence | SavedSequence): source is SavedSequence {
  return 'state' in source
}
