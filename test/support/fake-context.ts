/** A KV cache in place of llama.cpp's: every cell knows its position and its sequences, and takes a byte when saved. */
export class FakeContext {
  readonly cells = 10_000
  readonly #saved = new Map<Uint8Array, readonly number[]>()
  /** Called before a copy. */
  onSave: (bytes: number) => void = () => {}
  readonly sequencesOf: { readonly position: number; readonly sequences: Set<number> }[] = []

  forkSequence(source: number, target: number, end: number, start = 0): void {
    for (const { position, sequences } of this.sequencesOf) {
      if (sequences.has(source) && position >= start && position < end) sequences.add(target)
    }
  }

  removeSequence(sequence: number, start = 0): void {
    for (const { position, sequences } of this.sequencesOf) if (position >= start) sequences.delete(sequence)
  }

  sequenceBytes(sequence: number): number {
    return this.positionsOf(sequence).length
  }

  firstPosition(sequence: number): number {
    return Math.min(...this.positionsOf(sequence))
  }

  saveSequence(sequence: number): Uint8Array {
    const positions = this.positionsOf(sequence)
    this.onSave(positions.length)
    const state = new Uint8Array(positions.length)
    this.#saved.set(state, positions)
    return state
  }

  restoreSequence(sequence: number, state: Uint8Array): void {
    for (const position of this.#saved.get(state)!) {
      this.sequencesOf.push({ position, sequences: new Set([sequence]) })
    }
  }

  /** Fills cells at consecutive positions, or, for an image, all at one. */
  fill(sequence: number, start: number, cells: number, isImage = false): void {
    for (let i = 0; i < cells; i++) {
      this.sequencesOf.push({ position: isImage ? start : start + i, sequences: new Set([sequence]) })
    }
  }

  positionsOf(sequence: number): number[] {
    return this.sequencesOf.filter(({ sequences }) => sequences.has(sequence)).map(({ position }) => position)
  }

  get used(): number {
    return this.sequencesOf.filter(({ sequences }) => sequences.size > 0).length
  }
}
