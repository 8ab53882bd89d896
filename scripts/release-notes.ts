/**
 * `node scripts/release-notes.ts TAG`: prints the changelog's section of a release. Fails when the tag is not that of the
 * version in package.json, or when the section is missing, empty or has no date: then the release is not ready.
 */
import { readFile } from 'node:fs/promises'

const ROOT = new URL('../', import.meta.url)

const [, , tag] = process.argv
const { version } = JSON.parse(await readFile(new URL('package.json', ROOT), 'utf8')) as { version: string }
if (tag !== `v${version}`) fail(`the tag is ${tag}, and package.json has version ${version}`)
const sections = (await readFile(new URL('CHANGELOG.md', ROOT), 'utf8')).split(/^## /m)
const section = sections.find((text) => text.startsWith(`[${version}]`)) ?? fail(`CHANGELOG.md has no [${version}]`)
const [heading = '', ...notes] = section.split('\n')
if (!/\d{4}-\d{2}-\d{2}$/.test(heading)) fail(`CHANGELOG.md: "${heading}" has no date`)
const text = notes.join('\n').trim()
if (text === '') fail(`CHANGELOG.md says nothing of ${version}`)
console.log(text)

function fail(problem: string): never {
  console.error(`release notes: ${problem}`)
  process.exit(1)
}
