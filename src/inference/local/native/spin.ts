/**
 * How long a thread of the kernels looks for the others before it sleeps, in ns. On an idle machine they are there within
 * it, and waking a thread takes longer, above all in a virtual machine. Where other programs want the cores, a thread that
 * goes on looking takes the time that the one it waits for needs.
 */
const LOOKING_NS = 25_000
/** Where nothing tells how long a look takes. */
const USUAL_LOOK_NS = 25

/**
 * Has OpenMP's threads look for each other for as long on every processor: one look takes 12 ns on some, and 50 on others.
 * Call it before the kernels are loaded, with which libgomp reads the variable. A variable that is set is left alone.
 * @param lookNs null where it cannot be measured.
 */
export function limitSpinning(lookNs: number | null, env: NodeJS.ProcessEnv = process.env): void {
  const ns = lookNs !== null && lookNs > 0 ? lookNs : USUAL_LOOK_NS
  env.GOMP_SPINCOUNT ??= String(Math.round(LOOKING_NS / ns))
}
