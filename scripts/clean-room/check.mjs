// Runs in the clean room (scripts/clean-room.sh): starts the `lookout` on PATH, asks it about a picture as clients do, by
// HTTP and on the command line, and checks the boxes. Plain JavaScript: the Node of the room may be an older one than
// Lookout needs, which `lookout` must cope with.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

const [picture] = process.argv.slice(2)
/** Where things are in the picture (docs/pictures/shapes.svg): left, top, right, bottom, from 0 to 1000. */
const TRUE_BOXES = { 'red circle': [86, 104, 289, 375], heart: [691, 599, 902, 859] }
/** How much of the area of two boxes is common to both. The shipped model is good for more than 0.9 here. */
const OVERLAP = 0.7
const START_MS = 120_000
const say = (message) => console.log(`clean room: ${message}`)

const { stdout: version } = await promisify(execFile)('lookout', ['--version'])
say(`lookout ${version.trim()}`)

const server = spawn('lookout', ['serve'], {
  env: { ...process.env, LOOKOUT_PORT: '0', LOOKOUT_API_KEY: 'lk-room' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
const ended = once(server, 'exit')
try {
  const url = await untilListening()
  say(`serves at ${url}`)
  await checkStudio(url)
  await checkChat(url)
} finally {
  server.kill('SIGTERM')
}
assert.deepEqual(await ended, [0, null], 'the server ends in order after SIGTERM')
say('the server has ended in order')
await checkDetect()

async function untilListening() {
  const timer = setTimeout(() => server.kill('SIGKILL'), START_MS)
  let printed = ''
  for await (const text of server.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += text
    const url = /^Lookout listens on (\S+)$/m.exec(printed)?.[1]
    if (url === undefined) continue
    clearTimeout(timer)
    server.stdout.resume()
    return url
  }
  throw new Error(`the server did not start: ${printed}`)
}

async function checkStudio(url) {
  const page = await fetch(`${url}/studio`)
  assert.equal(page.status, 200)
  assert.match(await page.text(), /<script/)
  say('the Studio is there')
}

async function checkChat(url) {
  const image = `data:image/png;base64,${(await readFile(picture)).toString('base64')}`
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer lk-room', 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'service-mk1.5',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: image } },
            { type: 'text', text: 'Detect: red circle, heart' },
          ],
        },
      ],
      vision_config: { annotation_format: 'box' },
    }),
  })
  const body = await response.json()
  assert.equal(response.status, 200, JSON.stringify(body))
  const { content } = body.choices[0].message
  say(`"Detect: red circle, heart" is answered with\n${content}`)
  const tags = [...content.matchAll(/mention="([^"]+)"> \((\d+),(\d+)\) \((\d+),(\d+)\)/g)]
  checkBoxes(Object.fromEntries(tags.map(([, mention, ...numbers]) => [mention, numbers.map(Number)])))
}

async function checkDetect() {
  const { stdout } = await promisify(execFile)('lookout', ['detect', picture, 'red circle,heart', '--format', 'csv'])
  say(`lookout detect prints\n${stdout.trim()}`)
  const [head, ...rows] = stdout.trim().split('\n')
  assert.equal(head.trim(), 'file,label,left,top,right,bottom')
  const boxes = rows.map((row) => {
    const [, label, ...pixels] = row.trim().split(',')
    const [left, top, right, bottom] = pixels.map(Number)
    return [label, [left / 0.512, top / 0.384, right / 0.512, bottom / 0.384]]
  })
  checkBoxes(Object.fromEntries(boxes))
}

function checkBoxes(found) {
  assert.deepEqual(Object.keys(found).sort(), Object.keys(TRUE_BOXES).sort())
  for (const [label, box] of Object.entries(TRUE_BOXES)) {
    const common = overlap(found[label], box)
    assert.ok(common > OVERLAP, `${label} is at ${box}, not at ${found[label]}`)
    say(`${label}: ${Math.round(100 * common)} % of the box is right`)
  }
}

function overlap([left, top, right, bottom], [left2, top2, right2, bottom2]) {
  const area = (l, t, r, b) => Math.max(0, r - l) * Math.max(0, b - t)
  const common = area(Math.max(left, left2), Math.max(top, top2), Math.min(right, right2), Math.min(bottom, bottom2))
  return common / (area(left, top, right, bottom) + area(left2, top2, right2, bottom2) - common)
}
