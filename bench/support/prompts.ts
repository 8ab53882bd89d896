import sharp from 'sharp'
import type { ContentPart } from './chat.ts'

const WORDS = [
  'red',
  'blue',
  'circle',
  'square',
  'left',
  'right',
  'the',
  'a',
  'of',
  'is',
  'in',
  'picture',
  'large',
  'and',
]

/** Generates new text and images for each request. They differ from the first word on, so that no cache helps. */
export class FreshText {
  #state: number

  constructor(seed = Date.now()) {
    this.#state = seed % 2_147_483_647 || 1
  }

  words(count: number): string {
    return Array.from({ length: count }, () => WORDS[this.next(WORDS.length)]).join(' ')
  }

  /** A random integer below `limit`, from the minimal standard generator of Park and Miller. */
  next(limit: number): number {
    this.#state = (this.#state * 48_271) % 2_147_483_647
    return this.#state % limit
  }

  /** A new image, as a content part. */
  async image({ width, height } = { width: 256, height: 256 }): Promise<ContentPart> {
    const shapes = Array.from({ length: 4 }, () => {
      const [x, y, radius] = [40 + this.next(176), 40 + this.next(176), 16 + this.next(24)]
      return `<circle cx="${x}" cy="${y}" r="${radius}" fill="hsl(${this.next(360)} 80% 45%)"/>`
    })
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 256 256" preserveAspectRatio="none" width="${width}" height="${height}">
      <rect width="256" height="256" fill="hsl(${this.next(360)} 20% 90%)"/>${shapes.join('')}</svg>`
    const png = await sharp(Buffer.from(svg)).png().toBuffer()
    return { type: 'image_url', image_url: { url: `data:image/png;base64,${png.toString('base64')}` } }
  }
}

/** Distinct questions of a few tokens each. */
export const QUESTIONS: readonly string[] = ['circle', 'square', 'red picture', 'blue picture'].flatMap((thing) => [
  `Where is the ${thing}?`,
  `Is a ${thing} in it?`,
  `How many of the ${thing}?`,
  `Detect the ${thing}.`,
])
