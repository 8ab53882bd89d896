import { expect, test } from 'vitest'
import { KernelChoice } from './kernel-choice.ts'

const EARLY = { ms: 500, servedRequests: 0 }
const LATE = { ms: 60_000, servedRequests: 100 }

test('the compiled kernels are given up after two crashes in a row', () => {
  const choice = new KernelChoice(true)
  expect(choice.ended('SIGSEGV', LATE)).toBe(false)
  expect(choice.ended('SIGILL', LATE)).toBe(false)
  expect(choice.ended('SIGSEGV', EARLY)).toBe(true)
  expect(choice.compiled).toBe(false)
  expect(choice.ended('SIGSEGV', EARLY)).toBe(false)
})

test('and at once when no process was ever ready', () => {
  const choice = new KernelChoice(true)
  expect(choice.ended('SIGABRT', null)).toBe(true)
  expect(choice.compiled).toBe(false)
})

test('a process that was killed, or ended otherwise, says nothing about them', () => {
  const choice = new KernelChoice(true)
  for (const signal of ['SIGKILL', null] as const) {
    for (const life of [EARLY, EARLY, null]) expect(choice.ended(signal, life)).toBe(false)
  }
  expect(choice.compiled).toBe(true)
})

test('without compiled kernels there is nothing to give up', () => {
  const choice = new KernelChoice(false)
  expect(choice.ended('SIGSEGV', null)).toBe(false)
  expect(choice.compiled).toBe(false)
})
