/** Magic number and sequence id. */
const HEAD_BYTES = 8
/** A cell's record: a position, how many sequences it belongs to, and the sequence. */
const RECORD_BYTES = 12
/** The same with x, y and a token before the sequence. */
const LONG_RECORD_BYTES = 24

/** An array in the state, with an element of `bytes` bytes for each cell. */
interface CellArray {
  readonly at: number
  readonly bytes: number
}

/** The saved state of one cache. A model with sliding windows has two. */
interface SavedCache {
  readonly cells: number
  readonly records: CellArray
  /** Keys and values of each layer. */
  readonly rows: readonly CellArray[]
  /** Offset of what follows. */
  readonly end: number
}

/**
 * Sorts the cells of a saved sequence by position. llama.cpp saves them in the order of the cache, which depends on other
 * sequences. A state with an unexpected layout stays as it is.
 * @param state written by `llama_state_seq_get_data`.
 * @param isRecurrent whether the state of recurrent layers follows the caches.
 */
export function sortCells(state: Uint8Array, isRecurrent: boolean): void {
  const view = new DataView(state.buffer, state.byteOffset, state.byteLength)
  for (const { cells, records, rows } of readCaches(view, isRecurrent)) {
    const order = sortedCells(view, records, cells)
    if (order === null) continue
    const all = [records, ...rows]
    const before = new Uint8Array(cells * Math.max(...all.map(({ bytes }) => bytes)))
    for (const array of all) reorder(state, array, order, before)
  }
}

/** @returns none for an unexpected layout. */
function readCaches(view: DataView, isRecurrent: boolean): readonly SavedCache[] {
  for (const recordBytes of [RECORD_BYTES, LONG_RECORD_BYTES]) {
    const caches: SavedCache[] = []
    let at = HEAD_BYTES
    for (let cache = readCache(view, at, recordBytes); cache !== null; cache = readCache(view, at, recordBytes)) {
      caches.push(cache)
      at = cache.end
    }
    if (at === view.byteLength || (isRecurrent && caches.length > 0)) return caches
  }
  return []
}

/** @returns null where there is none. */
function readCache(view: DataView, start: number, recordBytes: number): SavedCache | null {
  const uint32 = (at: number) => view.getUint32(at, true)
  try {
    const [streams, cells] = [uint32(start), uint32(start + 4)]
    let at = start + 8
    if (streams !== 1) return null
    if (cells === 0) return { cells, records: { at, bytes: recordBytes }, rows: [], end: at }
    const records = { at, bytes: recordBytes }
    for (let i = 0; i < cells; i++) if (uint32(at + i * recordBytes + 4) !== 1) return null
    at += cells * recordBytes
    const [isTransposed, layers] = [uint32(at), uint32(at + 4)]
    at += 8
    if (isTransposed !== 0) return null
    const rows: CellArray[] = []
    // Some models have no values of their own.
    for (let i = 0; i < 2 * layers && at < view.byteLength; i++) {
      const bytes = Number(view.getBigUint64(at + 4, true))
      rows.push({ at: at + 12, bytes })
      at += 12 + cells * bytes
    }
    return at <= view.byteLength ? { cells, records, rows, end: at } : null
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/** Indices of the cells sorted by position; null if they are sorted already. */
function sortedCells(view: DataView, { at, bytes }: CellArray, cells: number): readonly number[] | null {
  const field = (cell: number, offset: number) => view.getInt32(at + cell * bytes + offset, true)
  // All cells of an image have the same first position under M-RoPE; then y decides, and then x.
  const fields = bytes === LONG_RECORD_BYTES ? [0, 12, 8] : [0]
  const compare = (a: number, b: number) => {
    for (const offset of fields) {
      const difference = field(a, offset) - field(b, offset)
      if (difference !== 0) return difference
    }
    return 0
  }
  let inOrder = 1
  while (inOrder < cells && compare(inOrder - 1, inOrder) <= 0) inOrder++
  return inOrder >= cells ? null : Array.from({ length: cells }, (_, cell) => cell).sort(compare)
}

/** @param before scratch memory for the original: new memory would take longer than the copy. */
function reorder(state: Uint8Array, { at, bytes }: CellArray, order: readonly number[], before: Uint8Array): void {
  before.set(state.subarray(at, at + order.length * bytes))
  for (let start = 0; start < order.length; ) {
    const from = order[start]!
    let end = start + 1
    while (order[end] === from + end - start) end++
    state.set(before.subarray(from * bytes, (from + end - start) * bytes), at + start * bytes)
    start = end
  }
}
