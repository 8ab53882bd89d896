/**
 * A thread of the engine process that sends a pulse twice a second, even while the main thread is inside a native call. It
 * has a pipe of its own, because only the main thread can send messages. It replaces `lookout_start_pulse` where no library
 * was compiled.
 */
import { writeSync } from 'node:fs'
import { PULSE_FILE, PULSE_MS } from '../heartbeat.ts'

const timer = setInterval(() => {
  try {
    writeSync(PULSE_FILE, '.')
  } catch {
    // The reader has gone: the process is about to end.
    clearInterval(timer)
  }
}, PULSE_MS)
