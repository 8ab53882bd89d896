import koffi from 'koffi'

const M_PERTURB = -6
/** glibc fills with the complement of this number's last byte. `MALLOC_PERTURB_` takes no number that makes it 255. */
const FILL_WITH_255 = 0x100
const BYTES = 2 ** 16

/**
 * Runs something in memory that holds no numbers until something is written: glibc fills what it hands out to this process
 * with bytes of 255.
 */
export async function inPoisonedMemory<T>(work: () => Promise<T>): Promise<T> {
  const library = koffi.load(null)
  const mallopt = library.func('int mallopt(int, int)')
  const free = library.func('void free(void *)')
  mallopt(M_PERTURB, FILL_WITH_255)
  try {
    const memory = library.func('void *malloc(size_t)')(BYTES)
    const isFilled = new Uint8Array(koffi.view(memory, BYTES)).every((byte) => byte === 255)
    free(memory)
    if (!isFilled) throw new Error('This library does not fill the memory that it hands out.')
    return await work()
  } finally {
    mallopt(M_PERTURB, 0)
  }
}
