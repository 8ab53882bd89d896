import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

/** The tests that `docs/contributing/contract.md` names, as `file › title`. */
const contract = await readFile('docs/contributing/contract.md', 'utf8')
const named = [...contract.matchAll(/`([\w./-]+\.test\.ts) › ([^`]+)`/g)].map(
  ([, file, title]) => [file!, title!] as const,
)

test('docs/contributing/contract.md names tests', () => {
  expect(named.length).toBeGreaterThan(50)
})

test.each([...new Set(named.map(([file]) => file))])('the tests that it names exist: %s', async (file) => {
  const source = await readFile(file.startsWith('src/') ? file : `test/${file}`, 'utf8')
  const missing = named.filter(([other, title]) => other === file && !source.includes(title))
  expect(missing).toEqual([])
})
