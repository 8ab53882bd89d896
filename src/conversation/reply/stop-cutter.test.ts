import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ReplyCollector } from './reply.ts'
import { StopCutter } from './stop-cutter.ts'

function read(texts: readonly string[], sequences: readonly string[]): [text: string, found: string | null] {
  const cutter = new StopCutter(sequences)
  const collector = new ReplyCollector()
  for (const text of texts) for (const piece of cutter.push({ type: 'text', text })) collector.add(piece)
  for (const piece of cutter.end()) collector.add(piece)
  return [collector.message.text, cutter.found]
}

test('a reply ends before the stop sequence that is complete first, however its text is chunked', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), maxLength: 12 })
  const sequence = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), minLength: 1, maxLength: 4 })
  const lists = fc.array(sequence, { minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(fc.array(letters, { maxLength: 6 }), lists, (texts, sequences) => {
      const whole = texts.join('')
      const ends = sequences.flatMap((each) => (whole.includes(each) ? [whole.indexOf(each) + each.length] : []))
      const end = Math.min(...ends)
      const [text, found] = read(texts, sequences)
      expect(found === null).toBe(ends.length === 0)
      if (found === null) expect(text).toBe(whole)
      else expect([text + found, sequences.includes(found)]).toEqual([whole.slice(0, end), true])
    }),
  )
})

test('of sequences that end together, the longest one counts', () => {
  expect(read(['xabc'], ['abc', 'bc'])).toEqual(['x', 'abc'])
  expect(read(['xa', 'b', 'cd'], ['cd', 'bcde', 'abce'])).toEqual(['xab', 'cd'])
})
