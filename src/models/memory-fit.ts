/** The context in estimates of memory, in tokens; for a model with less, its own context is used. */
export const ESTIMATED_CONTEXT = 8192
/** Libraries, Node and buffers, which every model needs. */
export const PROCESS_BYTES = 300 * 2 ** 20
/** Share of the available memory for a model that was not asked for by name: pictures, other programs and caches need the rest. */
const SHARE = 0.6
/** Lowest quantisation of a model that was not asked for by name: below it, boxes and small print suffer. */
const LEAST = 'Q4_K_M'
/** Files that were not quantised are twice as large as Q8_0, half as fast and hardly better. */
const UNQUANTISED = /^B?FP?(16|32)$/i

/** One of the files in which a model is published. */
export interface SizedQuantisation {
  /** Null if the file does not say so. */
  readonly quantisation: string | null
  readonly bytes: number
  /** Bytes that the loaded model takes. */
  readonly memory: number
}

/** Whether a model fits and leaves room for other work (`yes`), only just fits (`tight`), or does not fit. */
export function fitOf(memory: number, available: number): 'yes' | 'tight' | 'no' {
  return memory <= available * SHARE ? 'yes' : memory <= available ? 'tight' : 'no'
}

/**
 * The quantisation for a user who named none: the largest that leaves room in memory, but none that is too coarse.
 * @param sized at least one, smallest first.
 */
export function chooseQuantisation<Sized extends SizedQuantisation>(sized: readonly Sized[], available: number): Sized {
  const quantised = sized.filter(({ quantisation }) => !UNQUANTISED.test(quantisation ?? ''))
  const usual = quantised.length > 0 ? quantised : sized
  const least = usual.find(({ quantisation }) => quantisation?.toUpperCase() === LEAST)
  const fine = usual.filter((one) => (least === undefined ? bitsOf(one) >= 4 : one.bytes >= least.bytes))
  const roomy = (fine.length > 0 ? fine : usual).filter(({ memory }) => fitOf(memory, available) === 'yes')
  return (
    roomy.at(-1) ?? (fine.length > 0 ? fine[0]! : (usual.findLast(({ memory }) => memory <= available) ?? usual[0]!))
  )
}

function bitsOf({ quantisation }: SizedQuantisation): number {
  return Number(/\d+/.exec(quantisation ?? '')?.[0] ?? 16)
}
