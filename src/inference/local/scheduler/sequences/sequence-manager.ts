import { PRIORITIES, type Priority, yieldsTo } from '../../../contract/priority.ts'
import type { LocalStats } from '../../../contract/stats.ts'
import type { DiskPrefixes } from '../../disk/disk-prefixes.ts'
import type { BatchSplitter } from '../batch/batch-splitter.ts'
import type { LoadedModel } from '../loaded-model.ts'
import { WorkQueue } from '../work-queue.ts'
import type { KvHolder } from './kv-holder.ts'
import { PrefixReuse, type ReuseCosts, type ReuseStats, type Room } from './prefix-reuse.ts'
import type { Sequence } from './sequence.ts'
import type { RunningSequence, SequenceGroup } from './sequence-group.ts'
import { SharedPrefix } from './shared-prefix.ts'

/** Free cells that admission requires for a sequence's first tokens, so that it is not preempted at once. */
const HEADROOM_CELLS = 32

/**
 * Decides which sequences are in the KV cache. It owns the queue and the list of running sequences: it admits sequences in
 * fair order, preempts the youngest when cells run out (they are recomputed later), and closes finished ones. The scheduler
 * calls it between steps; the batch builder calls it to free cells.
 */
export class SequenceManager {
  readonly #loaded: LoadedModel
  /** Groups with sequences that wait; at its head, the one whose turn it is to have a sequence admitted. */
  readonly queue = new WorkQueue<SequenceGroup>()
  readonly reuse: PrefixReuse
  /** Oldest first. */
  readonly #running: RunningSequence[] = []
  readonly #openPrefixes = new Set<SharedPrefix>()
  #preemptions = 0
  #lastRank = 0
  /**
   * Priorities of preempted sequences. Nothing of them, and nothing less urgent, is admitted between a preemption and the next
   * end of a sequence.
   */
  readonly #congested = new Set<Priority>()

  /**
   * @param times from calibration.
   * @param disk keeps copies of ended work beyond the process; null for none.
   */
  constructor(
    loaded: LoadedModel,
    prefixCacheBytes: number,
    { rowMs, idleCellMs }: Pick<BatchSplitter, 'rowMs' | 'idleCellMs'>,
    disk: DiskPrefixes | null = null,
  ) {
    this.#loaded = loaded
    const { weighsCopies, keepsCells } = loaded.compute
    const costs: ReuseCosts = {
      copiedRowMs: weighsCopies ? rowMs : Number.POSITIVE_INFINITY,
      keeping: keepsCells ? { rowMs, idleCellMs } : null,
    }
    this.reuse = new PrefixReuse(loaded.kv, this.#running, prefixCacheBytes, costs, disk)
  }

  /** Oldest first. */
  get running(): readonly RunningSequence[] {
    return this.#running
  }

  /** Whether a sequence of one priority runs. */
  hasRunning(priority: Priority): boolean {
    return this.#running.some(({ group }) => group.priority === priority)
  }

  get stats(): Pick<LocalStats, 'running' | 'waiting' | 'preemptions'> & ReuseStats {
    return {
      ...this.reuse.stats,
      running: this.#running.length,
      waiting: this.queue.waiting,
      preemptions: this.#preemptions,
    }
  }

  enqueue(group: SequenceGroup): void {
    this.queue.of(group.priority).add(group)
  }

  /**
   * Admits sequences while they fit. No sequence overtakes one that waits for cells. Less urgent sequences are preempted when
   * others need their cells, and admitted when no others wait.
   */
  admit(): void {
    for (const priority of PRIORITIES) {
      if (this.#congested.has(priority)) return
      for (let group = this.queue.of(priority).head; group !== undefined; group = this.queue.of(priority).head) {
        const sequence = group.waiting[0]
        if (sequence === undefined) return
        if (this.#running.length >= this.#loaded.maxRunning && !this.#preemptFor(priority)) return
        while (!this.#makeRoomFor({ group, sequence })) if (!this.#preemptFor(priority)) return
        this.#admitNextOf(group)
      }
    }
  }

  /** Preempts the youngest of the least urgent sequences. @returns false if all are at least as urgent as the priority. */
  #preemptFor(priority: Priority): boolean {
    for (const lower of PRIORITIES.filter((other) => yieldsTo(other, priority)).reverse()) {
      const youngest = this.#running.findLast(({ group }) => group.priority === lower)
      if (youngest === undefined) continue
      this.#preempt(youngest)
      return true
    }
    return false
  }

  /** Ends a step: opens the sequences that waited for its prefill, and copies some ended work into the prefix cache. */
  endStep(copyMs: number, rows = 1): void {
    for (const running of this.#running) this.#open(running.sequence, running)
    this.reuse.endStep(copyMs, rows)
  }

  /**
   * Frees some cells: those of ended work; otherwise those of the youngest of the least urgent sequences. It never preempts the
   * oldest of equals, so there is always progress.
   * @returns false if there is nothing to free.
   */
  reclaim(): boolean {
    if (this.reuse.reclaim() || this.#closeIdlePrefix(null)) return true
    const youngest = this.#running.at(-1)
    if (youngest === undefined || this.#running.length === 1) return false
    const highest = PRIORITIES.find((priority) => this.hasRunning(priority))!
    if (!this.#preemptFor(highest)) this.#preempt(youngest)
    return true
  }

  /** Closes a finished sequence. The prefix cache keeps reusable cells. */
  finish(finished: RunningSequence): void {
    this.#stop(finished)
    this.#close(finished, true)
    const { group } = finished
    group.finish()
    if (group.isFinished) this.#closePrefixes(group, true)
  }

  /** Closes all of a group. @param keep whether the prefix cache may keep its cells. */
  drop(group: SequenceGroup, keep: boolean): void {
    this.queue.of(group.priority).remove(group)
    for (const running of this.#running.filter((other) => other.group === group)) {
      this.#stop(running)
      this.#close(running, keep)
    }
    this.#closePrefixes(group, keep)
    this.#congested.clear()
  }

  #admitNextOf(group: SequenceGroup): void {
    const queue = this.queue.of(group.priority)
    queue.rotate()
    const sequence = group.admit()
    if (group.waiting.length === 0) queue.remove(group)
    if (!sequence.wasAdmitted) sequence.rank = ++this.#lastRank
    const running = { group, sequence }
    // A preempted sequence may be older than others that run now.
    const after = this.#running.findLastIndex((other) => other.sequence.rank < sequence.rank)
    this.#running.splice(after + 1, 0, running)
    sequence.parent?.addUser()
    this.#open(sequence, running)
  }

  #preempt(running: RunningSequence): void {
    const { group, sequence } = running
    this.#stop(running)
    sequence.close(this.#loaded.kv)
    group.preempt(sequence)
    this.queue.of(group.priority).add(group)
    this.#preemptions++
    this.#congested.add(group.priority)
  }

  /** Removes a sequence from the running ones; the caller closes it. */
  #stop({ sequence }: RunningSequence): void {
    const index = this.#running.findIndex((running) => running.sequence === sequence)
    if (index === -1) throw new Error('The sequence does not run.')
    this.#running.splice(index, 1)
    sequence.parent?.removeUser()
    this.#congested.clear()
  }

  /**
   * Opens a holder as soon as everything that it continues is in the KV cache.
   * @param opening the sequence that needs it.
   * @returns whether all of the holder is in the KV cache.
   */
  #open(holder: KvHolder, opening: RunningSequence): boolean {
    if (holder.kvSequence !== null) return holder.isFilled
    const { parent } = holder
    if (parent !== null && !this.#open(parent, opening)) return false
    const kvSequence =
      holder === opening.group.root ? this.reuse.open(opening) : this.#loaded.kv.fork(parent?.kvSequence ?? null)
    if (kvSequence === null) return false
    holder.open(kvSequence)
    if (holder instanceof SharedPrefix) this.#openPrefixes.add(holder)
    return holder.isFilled
  }

  #close({ group, sequence }: RunningSequence, keep: boolean): void {
    const { branch, tokens } = sequence
    if (keep && group.root === sequence) this.reuse.keep(group, [branch.lastToken, ...tokens])
    else if (keep && branch.isContinued) this.reuse.keepBriefly({ group, sequence })
    sequence.close(this.#loaded.kv)
  }

  #closePrefixes(group: SequenceGroup, keep: boolean): void {
    for (const prefix of group.prefixes) {
      this.#openPrefixes.delete(prefix)
      if (keep && group.root === prefix) this.reuse.keep(group)
      prefix.close(this.#loaded.kv)
    }
  }

  /** Closes the youngest prefix that no running sequence needs. @param except sequence whose prefixes stay. */
  #closeIdlePrefix(except: Sequence | null): boolean {
    const spared = new Set<SharedPrefix>()
    for (let prefix = except?.parent ?? null; prefix !== null; prefix = prefix.parent) spared.add(prefix)
    const idle = [...this.#openPrefixes].findLast((prefix) => !prefix.isInUse && !spared.has(prefix))
    if (idle === undefined) return false
    this.#openPrefixes.delete(idle)
    idle.close(this.#loaded.kv)
    return true
  }

  #makeRoomFor(candidate: RunningSequence): boolean {
    const { kv } = this.#loaded
    const { sequence } = candidate
    const reserved = this.#reserved(candidate.group)
    const headroom = this.#running.length === 0 ? 0 : Math.min(HEADROOM_CELLS, sequence.tokensLeft)
    for (;;) {
      const needed = this.#needed(candidate)
      const missing = {
        cells: reserved.cells + needed.cells + headroom - kv.freeCells,
        sequences: reserved.sequences + needed.sequences - kv.freeSequences,
      }
      if (missing.cells <= 0 && missing.sequences <= 0) return true
      if (this.reuse.makeRoomFor(candidate.group, missing)) continue
      if (this.#running.length > 0 || !this.#closeIdlePrefix(sequence)) return false
    }
  }

  /** Cells and sequences that the running sequences will still take, except those that yield to the group. */
  #reserved({ priority }: SequenceGroup): Room {
    const room = { cells: 0, sequences: 0 }
    const seen = new Set<SharedPrefix>()
    for (const { group, sequence } of this.#running) {
      if (yieldsTo(group.priority, priority)) continue
      add(room, sequence)
      room.cells++
      for (let prefix = sequence.parent; prefix !== null && !seen.has(prefix); prefix = prefix.parent) {
        seen.add(prefix)
        add(room, prefix)
      }
    }
    return room
  }

  /** Cells and sequences that a sequence would take in addition. */
  #needed({ group, sequence }: RunningSequence): Room {
    const room = { cells: 1, sequences: 0 }
    add(room, sequence)
    let root: KvHolder = sequence
    for (let prefix = sequence.parent; prefix !== null && !prefix.isInUse && !prefix.isFilled; prefix = prefix.parent) {
      add(room, prefix)
      root = prefix
    }
    if (root === group.root && root.kvSequence === null) room.cells -= this.reuse.sharedCells(group)
    return room
  }
}

function add(room: Room, holder: KvHolder): void {
  room.cells += holder.remaining
  if (holder.kvSequence === null) room.sequences++
}
