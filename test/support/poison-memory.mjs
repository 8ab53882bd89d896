/** Preloaded into a process: memory that glibc hands out to it holds no numbers until something is written. */
import koffi from 'koffi'

const M_PERTURB = -6
/** glibc fills with the complement of this number's last byte. `MALLOC_PERTURB_` takes no number that makes it 255. */
const FILL_WITH_255 = 0x100
koffi.load(null).func('int mallopt(int, int)')(M_PERTURB, FILL_WITH_255)
