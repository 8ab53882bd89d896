/**
 * Writes `image-tokens.json`: the sizes that Lookout gives to images for each model of `processors.ts`, and the tokens that
 * vLLM's own processors count for them. `node test/support/vllm/record-image-tokens.ts PYTHON`, where PYTHON has vLLM 0.32 or
 * newer (`npm run test:vllm` installs one).
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { targetSize } from '../../../src/media/resize.ts'
import { readFolderHeaders } from '../../../src/models/read/hugging-face.ts'
import { limitsOf, ORIGINALS, PROCESSORS, writeProcessorFolder } from './processors.ts'

const [python = 'python3', only] = process.argv.slice(2)
const folder = await mkdtemp(join(tmpdir(), 'lookout-image-tokens-'))
try {
  const cases: { folder: string; name: string; placeholder: string; sizes: [number, number][]; around: number }[] = []
  for (const facts of PROCESSORS.filter(({ name }) => only === undefined || name === only)) {
    const path = join(folder, facts.name)
    await writeProcessorFolder(path, facts)
    const { images, unserved } = await readFolderHeaders(path, { file: 'card.json', directory: folder })
    if (images === null) throw new Error(`${facts.name}: ${unserved}`)
    const limits = limitsOf(facts, images.limits)
    const { before = '', target, after = '' } = images.placeholder
    const sizes = ORIGINALS.map((size) => targetSize(size, limits)).map(({ width, height }): [number, number] => [
      width,
      height,
    ])
    // Characters that surround the target, where vLLM's sums leave it out: `image` is text.
    const around = [before, after].join('').replaceAll(/<\|[a-z_]+\|>/g, 'x').length
    cases.push({ folder: path, name: facts.name, placeholder: before + target + after, sizes, around })
  }
  const counted = await new Promise<{ name: string; counts: [number, number | null][] | null }[]>((resolve, reject) => {
    const child = execFile(python, ['test/support/vllm/image_tokens.py'], { maxBuffer: 2 ** 26 }, (error, stdout) => {
      const line = stdout.split('\n').find((line) => line.startsWith('RESULT '))
      if (line === undefined) reject(error ?? new Error('no result'))
      else resolve(JSON.parse(line.slice('RESULT '.length)))
    })
    child.stderr!.pipe(process.stderr)
    child.stdin!.end(JSON.stringify(cases))
  })
  const rows = counted.map(({ name, counts }, index) => {
    const { sizes } = cases[index]!
    return `  ${JSON.stringify(name)}: ${JSON.stringify(counts && sizes.map((size, at) => [...size, ...counts[at]!]))}`
  })
  const text = `{\n${rows.join(',\n')}\n}\n`
  if (only === undefined) await writeFile('test/support/vllm/image-tokens.json', text)
  else process.stdout.write(text)
} finally {
  await rm(folder, { recursive: true })
}
