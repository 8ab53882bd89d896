import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { LookoutClient } from '../src/client/client.ts'
import { askBoxes, type FoundList } from '../src/commands/calibrating/ask-boxes.ts'
import { toBoxExample } from '../src/commands/calibrating/box-examples.ts'
import { type Depth, fitDetection, hasReads, rateBoxes, rateLists } from '../src/commands/calibrating/box-fit.ts'
import { boxQuality, calibrationError, rankingQuality } from '../src/commands/calibrating/box-quality.ts'
import { readLines } from '../src/commands/calibrating/examples.ts'
import { loadCard } from '../src/models/card.ts'
import type { DetectionFit } from '../src/models/detection-schema.ts'
import { type Evaluation, MODEL } from './evaluation.ts'

const CARD = fileURLToPath(new URL('../models/lookout-nano/card.json', import.meta.url))
const WORLDS = ['plain', 'shifted', 'hard'] as const
/** The first picture of each world that is fitted to; those before it are measured. */
const FIRST_TO_FIT = 100_000

/**
 * Detects on new pictures of three worlds, and prints how good the confidence of the boxes is. With `--fit`, it is fitted first,
 * on other pictures of all three, and applied here instead of the card's.
 * @returns an exit code.
 */
export async function evaluateDetection({ url, key, args, train }: Evaluation): Promise<number> {
  const { pictures, fit } = parseArgs({
    args: [...args],
    options: { pictures: { type: 'string', default: '60' }, fit: { type: 'string', default: '0' } },
  }).values
  const folder = await mkdtemp(join(tmpdir(), 'lookout-detections-'))
  const client = new LookoutClient({ url, key })
  const ask = async (first: number, total: number): Promise<readonly (readonly FoundList[])[]> => {
    const share = String(Math.ceil(total / WORLDS.length))
    const sizes = WORLDS.flatMap((world) => [`--${world}`, share])
    const code = await train(['detections', '--output', folder, '--first', String(first), ...sizes])
    if (code !== 0) throw new Error(`the pictures could not be drawn (${code})`)
    const asked: (readonly FoundList[])[] = []
    for (const world of WORLDS) {
      asked.push(await askBoxes((await readLines(join(folder, world))).map(toBoxExample), { client, model: MODEL }))
    }
    return asked
  }
  try {
    const fitted = Number(fit) > 0 ? fitDetection((await ask(FIRST_TO_FIT, Number(fit))).flat()) : null
    const shown = fitted ?? (await loadCard(CARD)).detection ?? null
    const worlds = await ask(0, Number(pictures))
    process.stdout.write(`\n${report(worlds, shown)}\n`)
    if (fitted !== null) process.stdout.write(`\nFor the card: "detection": ${JSON.stringify(fitted)}\n`)
    return 0
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function report(worlds: readonly (readonly FoundList[])[], fit: DetectionFit | null): string {
  const rows = worlds.flatMap((lists, world) => {
    const depths: readonly Depth[] = hasReads(lists) ? ['plain', 'thorough'] : ['plain']
    const ended = rateLists(lists, fit)
    return depths.map((depth) => {
      const [raw, quality] = [null, fit].map((by) => boxQuality(rateBoxes(lists, depth, by))) as [Quality, Quality]
      const figures = [quality.right, quality.ap, quality.ap50, raw.ece, quality.ece, raw.brier, quality.brier]
      const whole = [rankingQuality(ended), calibrationError(ended)]
      return [
        WORLDS[world]!,
        depth === 'plain' ? 'one pass' : depth,
        String(quality.boxes),
        ...[...figures, ...whole].map((one) => one?.toFixed(3) ?? '-'),
      ]
    })
  })
  const head = ['world', 'evidence', 'boxes', 'right', 'AP', 'AP50', 'raw ECE', 'ECE', 'raw Brier', 'Brier']
  const all = [...head, 'list whole: AUC', 'ECE']
  return [all, all.map((_, column) => (column < 2 ? '---' : '---:')), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')
}

type Quality = ReturnType<typeof boxQuality>
