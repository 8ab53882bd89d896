import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorBody } from '../src/api/http/wire/error.ts'
import { detectResponse } from '../src/api/native/wire/detect.ts'
import { damaged, FUZZ } from './support/fuzz.ts'
import { startTestServer, type TestServer } from './support/server.ts'

let server: TestServer
let url: string
beforeAll(async () => {
  const bytes = await sharp({ create: { width: 40, height: 40, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer()
  url = `data:image/png;base64,${bytes.toString('base64')}`
  server = await startTestServer({ environment: { LOOKOUT_LOG_LEVEL: 'silent' } })
  server.engine.script = { texts: ['<point_box mention="a"> (1,2) (3,4) </point_box>'] }
})
afterAll(() => server?.close())

test(`any body gets a valid response or a valid error: ${FUZZ.numRuns} bodies`, async () => {
  const media = { type: 'image', image_url: url }
  const annotation = {
    mention: 'a',
    label: 'b',
    index: 0,
    point: { x: 1, y: 2 },
    point_box: { top_left: { x: 1, y: 2 }, bottom_right: { x: 30, y: 40 } },
    timestamp: 0.5,
  }
  const bodies = [
    { media },
    { media, categories: ['a', 'b c'], config: { enable_thinking: false, output: 'point' } },
    { media, config: { tiles: 'auto', smallest: 2, looks: 'coarse' } },
    { media, categories: ['a'], config: { tiles: [2, 1] } },
    { media, categories: ['a', 'b'], config: { confidence: 'thorough', min_confidence: 0.1, evidence: true } },
    { media, exemplars: [{ media, annotations: [annotation, { mention: 'a', point: { x: 0, y: 0 } }] }] },
    {
      model: 'service-mk1',
      media,
      categories: ['a'],
      exemplars: [{ media, annotations: [annotation] }],
      negative_exemplars: [{ media }],
    },
  ]
  const statuses = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(damaged(bodies), async (body) => {
      const response = await server.post('/v1/detect', body)
      const json: unknown = await response.json()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
      if (response.status === 200) detectResponse.parse(json)
      else {
        expect(response.status).toBeGreaterThanOrEqual(400)
        expect(response.status, JSON.stringify(json)).toBeLessThan(500)
        const { error } = errorBody.parse(json)
        expect(error.message).not.toBe('')
      }
    }),
    FUZZ,
  )
  // Some bodies were accepted and some rejected.
  expect(statuses.get(200)).toBeGreaterThan(0)
  expect(statuses.get(400)).toBeGreaterThan(0)
}, 600_000)
