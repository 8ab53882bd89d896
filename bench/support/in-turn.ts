import { watchRound } from './machine.ts'

/** Disturbed rounds that are measured again, for each round. */
const MOST_REPEATS = 2

/**
 * Measures two sides in turn, both with the same input. The order changes with every round, so that neither side benefits
 * from the processor's caches. A round that the machine disturbs is measured again, on both sides.
 * @returns the results of each side, in pairs.
 */
export async function inTurn<Input, First, Second>(
  rounds: number | { readonly least: number; readonly ms: number },
  prepare: () => Input | Promise<Input>,
  first: (input: Input) => Promise<First>,
  second: (input: Input) => Promise<Second>,
): Promise<readonly [First[], Second[]]> {
  const results: readonly [First[], Second[]] = [[], []]
  const measures = [
    async (input: Input) => void results[0].push(await first(input)),
    async (input: Input) => void results[1].push(await second(input)),
  ]
  const { least, ms } = typeof rounds === 'number' ? { least: rounds, ms: 0 } : rounds
  const started = performance.now()
  let repeats = MOST_REPEATS * least
  for (let round = 0; results[0].length < least || performance.now() - started < ms; round++) {
    const input = await prepare()
    const wasDisturbed = await watchRound()
    for (const measure of round % 2 === 0 ? measures : measures.toReversed()) await measure(input)
    if (repeats === 0 || !(await wasDisturbed())) continue
    repeats--
    for (const side of results) side.pop()
  }
  return results
}
