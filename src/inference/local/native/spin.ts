/**
 * How long a kernel thread spins at a barrier before it sleeps, in ns. On an idle machine the others arrive within this time, and
 * waking a thread takes longer, above all in a virtual machine. On a busy machine, a spinning thread takes the CPU time that the
 * thread it waits for needs.
 */
const SPIN_NS = 25_000
/**
 * The same where each call follows a pause, as for vectors of single texts. The other threads are then asleep, and in a
 * virtual machine waking one takes longer than an operation: with a shorter time, each barrier of the call waits for a
 * sleeping thread.
 */
export const SPIN_AFTER_PAUSES_NS = 250_000
/** Assumed duration of an iteration if it is not measured. */
const DEFAULT_ITERATION_NS = 25

/**
 * Sets libgomp's spin count so that threads spin equally long on every processor: an iteration takes 12 ns on some and 50 on
 * others. Call it before loading the kernels: libgomp then reads the variable. A variable that is set stays as it is.
 * @param iterationNs null if it cannot be measured.
 */
export function limitSpinning(
  iterationNs: number | null,
  spinNs = SPIN_NS,
  env: NodeJS.ProcessEnv = process.env,
): void {
  const ns = iterationNs !== null && iterationNs > 0 ? iterationNs : DEFAULT_ITERATION_NS
  env.GOMP_SPINCOUNT ??= String(Math.round(spinNs / ns))
}
