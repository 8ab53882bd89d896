/**
 * A thread of the engine process that says twice a second that the process runs, even while its main thread is inside a
 * native call. It has a pipe of its own, because only the main thread can send messages. It is the substitute for
 * `lookout_start_pulse` where no library was compiled.
 */
import { writeSync } from 'node:fs'
import { PULSE_FILE, PULSE_MS } from '../heartbeat.ts'

const timer = setInterval(() => {
  try {
    writeSync(PULSE_FILE, '.')
  } catch {
    // Nobody is listening: the process is about to end.
    clearInterval(timer)
  }
}, PULSE_MS)
