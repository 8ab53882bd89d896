/**
 * The vocabulary of code, comments, documentation and the Studio: phrases to avoid, and what to write in their place. `npm run lint`
 * runs this script, which prints where such a phrase stands.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** Between words: also the end of a line of a comment. */
const GAP = '(?:\\s|\\n *(?:\\*|//|#))+'
const VOCABULARY: readonly (readonly [phrase: string, instead: string])[] = [
  [`so${GAP}(?:many|much|long)(?!${GAP}(?:as|that)\\b)`, 'the number: "5 lines", "at most 5 s", "this many bytes"'],
  ['whatever', '"any", "every" or "all", or name the thing'],
  ['whoever', 'who it is: "the caller", "a client", "the user"'],
  // In quotes, it is a name.
  ['(?<![\'"`/])nobody', 'who it is: "no request", "no other process"'],
  ['anew', '"again"'],
  [`parted${GAP}by`, '"separated by", "comma-separated"'],
  // At the beginning of a comment.
  ['(?-i:(?<=(?:/[*][*]|//| [*]) )Of(?= ))', 'what it is: "Length of the part", not "Of the part"'],
]
const FOLDERS = ['bench', 'docs', 'reference', 'scripts', 'site', 'src', 'studio', 'test', '*.md', ':!CHANGELOG.md']
/** Data, and this list. */
const EXCLUDED = /^test\/fixtures\/|^scripts\/words\.ts$/
const TEXTS = /\.(?:c|cpp|css|cu|h|html|m?js|md|py|sh|tsx?)$/

let hits = 0
for (const file of execFileSync('git', ['ls-files', ...FOLDERS], { encoding: 'utf8' })
  .trim()
  .split('\n')) {
  if (!TEXTS.test(file) || EXCLUDED.test(file)) continue
  const text = readFileSync(file, 'utf8')
  for (const [phrase, instead] of VOCABULARY) {
    for (const { index, 0: found } of text.matchAll(new RegExp(`\\b${phrase}\\b`, 'gi'))) {
      hits++
      const line = text.slice(0, index).split('\n').length
      console.error(`${file}:${line}: '${found.replace(/\s+/g, ' ')}': write ${instead}`)
    }
  }
}
if (hits > 0) process.exitCode = 1
