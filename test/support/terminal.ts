import { pythonWith } from './python.ts'

/** Runs its arguments on a terminal of their own, and ends when this process ends it. */
const ON_TERMINAL = `
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
while True:
    try: data = os.read(terminal, 65536)
    except OSError: break
    if not data: break
    os.write(1, data)
os.waitpid(pid, 0)
`

const PYTHON = pythonWith('pty')

/** Put before a command, has it run on a terminal, which prints to standard output; null where Python has no `pty`. */
export const TERMINAL = PYTHON === null ? null : ([PYTHON, '-c', ON_TERMINAL] as const)
