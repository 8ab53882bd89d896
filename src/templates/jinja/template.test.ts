import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import cases from '../../../test/fixtures/jinja-snippets.json' with { type: 'json' }
import { JinjaTemplate } from './template.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: new Date(2026, 2, 5, 14, 7, 9) })
})
afterEach(() => {
  vi.useRealTimers()
})

test.each(Object.entries(cases.snippets as Readonly<Record<string, string | null>>))(
  'as in Python: %s',
  (source, expected) => {
    const render = () => new JinjaTemplate(source).render(cases.variables)
    if (expected === null) expect(render).toThrow()
    else expect(render()).toBe(expected)
  },
)

test('a number that JavaScript has rounded is not formatted', () => {
  for (const source of ["{{ '%d' % 12345678901234567890 }}", "{{ '{:d}'.format(12345678901234567890) }}"])
    expect(() => new JinjaTemplate(source).render({})).toThrow('it is too large')
})

test('searches behind an offset take no copy of the text', () => {
  const source = "{% for i in range(1000) %}{% set _ = text.find('x', i) + text.count('x', 299990) %}{% endfor %}"
  for (const text of ['ab'.repeat(150_000), 'é中'.repeat(150_000)]) {
    const spread = vi.spyOn(String.prototype, Symbol.iterator)
    new JinjaTemplate(source).render({ text })
    expect(spread.mock.contexts.filter((one) => String(one).length > 100_000)).toEqual([])
    spread.mockRestore()
  }
})

test('lists can be changed, as in llama.cpp', () => {
  const source = '{% set l = [1] %}{{ l.append(2) }}{{ l.pop(0) }}{% set _ = l.extend([3, 4]) %}{{ l }}'
  expect(new JinjaTemplate(source).render({})).toBe('None1[2, 3, 4]')
})

test('a template cannot change what it is given', () => {
  const given = { items: [1] }
  new JinjaTemplate('{% set _ = items.append(2) %}').render(given)
  expect(given).toEqual({ items: [1] })
})
