import { readdir, readFile } from 'node:fs/promises'
import { basename } from 'node:path'

/** The ids of a process and all its descendants. Linux only (reads /proc). */
export async function processTree(root: number): Promise<Set<number>> {
  const parents = new Map<number, number>()
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    const parent = /^\d+ \(.*\) \S (\d+)/s.exec(stat)?.[1]
    if (parent) parents.set(Number(name), Number(parent))
  }
  const tree = new Set([root])
  for (let size = 0; size !== tree.size; ) {
    size = tree.size
    for (const [pid, parent] of parents) if (tree.has(parent)) tree.add(pid)
  }
  return tree
}

/** Resident bytes of a process and all its descendants. */
export async function residentBytes(root: number): Promise<number> {
  let sum = 0
  for (const pid of await processTree(root)) sum += await memoryOf(pid, 'VmRSS')
  return sum
}

/**
 * Bytes of all processes of a tree, each page divided by the processes that have it mapped: what they take of the machine.
 * The sum of what is resident in each counts the pages of Node's own file once for every process.
 */
export async function proportionalBytes(root: number): Promise<number> {
  let sum = 0
  for (const pid of await processTree(root)) sum += await kilobytesIn(`/proc/${pid}/smaps_rollup`, 'Pss')
  return sum * 1024
}

/** Resident bytes of the processes of a tree, by the program file that each runs. */
export function residentByProgram(root: number): Promise<Map<string, number>> {
  return byProgram(root, 'VmRSS')
}

/** The same, at the peak of each process. */
export function peakByProgram(root: number): Promise<Map<string, number>> {
  return byProgram(root, 'VmHWM')
}

async function byProgram(root: number, line: MemoryLine): Promise<Map<string, number>> {
  const bytes = new Map<string, number>()
  for (const pid of await processTree(root)) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0')
    const file = words.find((word) => /\.[mc]?[jt]s$/.test(word)) ?? words[0]!
    const program = basename(file).replace(/\.[^.]+$/, '')
    bytes.set(program, (bytes.get(program) ?? 0) + (await memoryOf(pid, line)))
  }
  return bytes
}

/** A line of /proc/PID/status: what is resident now, or was at its most. */
type MemoryLine = 'VmRSS' | 'VmHWM'

async function memoryOf(pid: number, line: MemoryLine): Promise<number> {
  return (await kilobytesIn(`/proc/${pid}/status`, line)) * 1024
}

/** What a line of a file in /proc says; 0 when the process has ended. */
async function kilobytesIn(file: string, line: string): Promise<number> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return Number(new RegExp(`^${line}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0)
}

/** Processor time of a process and its descendants, including those that have ended, in clock ticks. */
export async function processorTicks(root: number): Promise<number> {
  let sum = 0
  for (const pid of await processTree(root)) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
    // The name may contain any character. After it, state is field 3, and utime, stime, cutime and cstime are 14 to 17.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    for (const field of fields.slice(11, 15)) sum += Number(field)
  }
  return sum
}
