import { expect, test } from 'vitest'
import { LibraryChoice } from './library-choice.ts'

const EARLY = { ms: 500, servedRequests: 0 }
const LATE = { ms: 60_000, servedRequests: 100 }

test('the compiled kernels are given up after two crashes in a row', () => {
  const choice = new LibraryChoice(['kernels'])
  expect(choice.ended('SIGSEGV', LATE)).toBeNull()
  expect(choice.ended('SIGILL', LATE)).toBeNull()
  expect(choice.ended('SIGSEGV', EARLY)).toBe('kernels')
  expect(choice.uses('kernels')).toBe(false)
  expect(choice.ended('SIGSEGV', EARLY)).toBeNull()
})

test('the compiled kernels are given up at once if no process was ever ready', () => {
  const choice = new LibraryChoice(['kernels'])
  expect(choice.ended('SIGABRT', null)).toBe('kernels')
  expect(choice.uses('kernels')).toBe(false)
})

test('the GPU is given up before them if no process was ever ready', () => {
  const choice = new LibraryChoice(['gpu', 'kernels'])
  expect(choice.ended('SIGABRT', null)).toBe('gpu')
  expect([choice.uses('gpu'), choice.uses('kernels')]).toEqual([false, true])
  expect(choice.ended('SIGABRT', null)).toBe('kernels')
})

test('a GPU that has computed is kept', () => {
  const choice = new LibraryChoice(['gpu', 'kernels'])
  expect(choice.ended('SIGABRT', EARLY)).toBeNull()
  expect(choice.ended('SIGABRT', EARLY)).toBe('kernels')
  expect(choice.ended('SIGABRT', EARLY)).toBeNull()
  expect(choice.uses('gpu')).toBe(true)
})

test('a process that was killed, or exited otherwise, changes nothing', () => {
  const choice = new LibraryChoice(['gpu', 'kernels'])
  for (const signal of ['SIGKILL', null] as const) {
    for (const life of [EARLY, EARLY, null]) expect(choice.ended(signal, life)).toBeNull()
  }
  expect(choice.uses('kernels')).toBe(true)
})

test('without optional libraries, there is nothing to give up', () => {
  const choice = new LibraryChoice([])
  expect(choice.ended('SIGSEGV', null)).toBeNull()
})
