import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MessageCollector } from './reply.ts'
import { PLAIN } from './reply-reader.ts'
import { StopStage } from './stop-stage.ts'

function read(texts: readonly string[], stops: readonly string[]): [text: string, found: string | null] {
  const stage = new StopStage(PLAIN, stops)
  const collector = new MessageCollector()
  for (const text of texts) for (const piece of stage.push(text)) collector.add(piece)
  for (const piece of stage.end(false)) collector.add(piece)
  return [collector.message.text, stage.found]
}

test('a reply ends at the stop that is complete first, however its text is cut', () => {
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), maxLength: 12 })
  const stop = fc.string({ unit: fc.constantFrom('a', 'b', 'é'), minLength: 1, maxLength: 4 })
  fc.assert(
    fc.property(fc.array(letters, { maxLength: 6 }), fc.array(stop, { minLength: 1, maxLength: 4 }), (texts, stops) => {
      const whole = texts.join('')
      const ends = stops.flatMap((each) => (whole.includes(each) ? [whole.indexOf(each) + each.length] : []))
      const end = Math.min(...ends)
      const [text, found] = read(texts, stops)
      expect(found === null).toBe(ends.length === 0)
      if (found === null) expect(text).toBe(whole)
      else expect([text + found, stops.includes(found)]).toEqual([whole.slice(0, end), true])
    }),
  )
})

test('of stops that end together, the shorter one is found', () => {
  expect(read(['xabc'], ['abc', 'bc'])).toEqual(['xa', 'bc'])
  expect(read(['xa', 'b', 'cd'], ['cd', 'bcde', 'abce'])).toEqual(['xab', 'cd'])
})
