import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { detect as command } from '../src/commands/detect.ts'
import { internalError, invalidRequest } from '../src/lib/errors/errors.ts'
import { type TemporaryCard, uncalibratedCard } from './support/changed-card.ts'
import { type Outcome, outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import { KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeVideo } from './support/video.ts'

let server: TestServer
let card: TemporaryCard
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-detect-'))
  card = await uncalibratedCard()
  server = await startTestServer({ environment: { LOOKOUT_MODEL_CARD: card.path } })
  // Each category is a branch of its own, whose question names it.
  server.engine.script = {
    branch: ({ suffix }) => {
      const question = suffix.map((part) => (part.type === 'text' ? part.text : '')).join('')
      if (question.includes('dog')) return { texts: [''] }
      const name = question.includes('big, cat') ? 'big, cat' : 'cat'
      return { texts: [`<point_box mention="${name}"> (100,200) (500,800) </point_box>`] }
    },
  }
})
afterAll(async () => {
  await server?.close()
  await card?.remove()
  await rm(directory, { recursive: true, force: true })
})

const place = (name: string) => join(directory, name)

/** A grey picture. With an EXIF orientation of 6, a viewer turns it by a quarter, so its sides change places. */
async function picture(name: string, width: number, height: number, orientation?: number): Promise<string> {
  const grey = sharp({ create: { width, height, channels: 3, background: '#808080' } })
  const turned = orientation === undefined ? grey : grey.withMetadata({ orientation })
  const ending = name.endsWith('.png') ? 'png' : 'jpeg'
  await writeFile(place(name), await turned.toFormat(ending).toBuffer())
  return place(name)
}

const settings = () => ({ LOOKOUT_URL: server.url, LOOKOUT_API_KEY: KEY })

const detect = (args: readonly string[]): Promise<Outcome> => outcomeHere(command, args, settings())

/** As a user does. */
const detectByProgram = (args: readonly string[], input?: Buffer): Promise<Outcome> =>
  outcomeOf(startLookout(['detect', ...args], settings()), input)

/** The pixel at a place, as red, green and blue. */
async function pixel(file: string, left: number, top: number): Promise<number[]> {
  return [...(await sharp(file).extract({ left, top, width: 1, height: 1 }).removeAlpha().raw().toBuffer())]
}

test('prints a table, and draws the boxes on the picture as a viewer shows it', async () => {
  const file = await picture('turned.jpg', 1000, 500, 6)
  const run = await detectByProgram([file, 'cat,dog', '-o', place('drawn/turned.png')])
  expect(run).toEqual({
    code: 0,
    stderr: '',
    // Upright, the picture is 500 wide and 1000 high.
    stdout: expect.stringMatching(/^FILE +LABEL +LEFT +TOP +RIGHT +BOTTOM\n\S+turned\.jpg +cat +50 +200 +250 +800\n$/),
  })
  const drawn = place('drawn/turned.png')
  expect(await sharp(drawn).metadata()).toMatchObject({ width: 500, height: 1000 })
  expect(await pixel(drawn, 50, 500)).toEqual([0xff, 0x3b, 0x30])
  expect(await pixel(drawn, 150, 800)).toEqual([0xff, 0x3b, 0x30])
  expect(await pixel(drawn, 150, 500)).toEqual([128, 128, 128])
})

test('COCO and JSON: one valid file for all pictures of a folder', async () => {
  await mkdir(place('album'))
  await picture('album/10.png', 200, 100)
  await picture('album/9.jpg', 400, 300)
  await writeFile(place('album/notes.txt'), 'not a picture')
  const run = await detect([
    place('album'),
    'dog,cat',
    '--format',
    'coco',
    '-o',
    place('found.json'),
    '-o',
    place('marked'),
  ])
  expect(run).toEqual({ code: 0, stdout: '', stderr: '' })
  expect(JSON.parse(await readFile(place('found.json'), 'utf8'))).toEqual({
    info: {
      description: 'Objects found by service-mk1.5: dog, cat',
      contributor: expect.stringMatching(/^Lookout \d+\.\d+\.\d+$/),
      year: new Date().getFullYear(),
      date_created: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      model: 'service-mk1.5',
      prompt: ['dog', 'cat'],
    },
    licenses: [],
    images: [
      { id: 1, file_name: '9.jpg', width: 400, height: 300 },
      { id: 2, file_name: '10.png', width: 200, height: 100 },
    ],
    annotations: [
      { id: 1, image_id: 1, category_id: 2, bbox: [40, 60, 160, 180], area: 28_800, segmentation: [], iscrowd: 0 },
      { id: 2, image_id: 2, category_id: 2, bbox: [20, 20, 80, 60], area: 4800, segmentation: [], iscrowd: 0 },
    ],
    categories: [
      { id: 1, name: 'dog' },
      { id: 2, name: 'cat' },
    ],
  })
  expect((await readdir(place('marked'))).sort()).toEqual(['10.png', '9.png'])

  const json = await detect([place('album/10.png'), 'cat', '--json'])
  expect(JSON.parse(json.stdout)).toEqual([
    {
      file: place('album/10.png'),
      width: 200,
      height: 100,
      detections: [{ mention: 'cat', point_box: { top_left: { x: 20, y: 20 }, bottom_right: { x: 100, y: 80 } } }],
      finish_reason: 'complete',
    },
  ])
})

/** Folders that have pictures with the same names. */
async function tree(name: string): Promise<string[]> {
  await mkdir(place(`${name}/b/deep`), { recursive: true })
  await mkdir(place(`${name}/a`))
  return [
    await picture(`${name}/a/1.png`, 200, 100),
    await picture(`${name}/b/1.png`, 50, 50),
    await picture(`${name}/b/deep/1.jpg`, 200, 100),
  ]
}

const filesIn = async (folder: string) => {
  const entries = await readdir(place(folder), { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(place(folder), join(entry.parentPath, entry.name)))
    .sort()
}

test('YOLO: a data set with labels in folders like those of the pictures', async () => {
  const files = await tree('shelf')
  expect(await detect([...files, 'dog,cat', '--format', 'yolo', '-o', place('yolo/')])).toEqual({
    code: 0,
    stdout: '',
    stderr: '',
  })
  expect(await filesIn('yolo')).toEqual([
    'classes.txt',
    'data.yaml',
    'images',
    'labels/a/1.txt',
    'labels/b/1.txt',
    'labels/b/deep/1.txt',
    'train.txt',
  ])
  expect(await readFile(place('yolo/classes.txt'), 'utf8')).toBe('dog\ncat\n')
  expect(await readFile(place('yolo/labels/b/deep/1.txt'), 'utf8')).toBe('1 0.300000 0.500000 0.400000 0.600000\n')
  const listed = (await readFile(place('yolo/train.txt'), 'utf8')).trimEnd().split('\n')
  expect(listed).toEqual(['./images/a/1.png', './images/b/1.png', './images/b/deep/1.jpg'])
  // Through the link.
  expect(await readFile(place(join('yolo', listed[1]!)))).toEqual(await readFile(files[1]!))
  // The link of the last run makes room for the pictures of this one, in which nothing is found.
  expect(await detect([files[0]!, 'dog', '--format', 'yolo', '-o', place('yolo/')])).toMatchObject({ code: 0 })
  expect(await readFile(place('yolo/labels/1.txt'), 'utf8')).toBe('')
  expect(await readFile(place('yolo/images/1.png'))).toEqual(await readFile(files[0]!))
})

test('YOLO: labels of pictures within the folder are where Ultralytics looks for them', async () => {
  const files = await tree('set/images')
  expect(await detect([...files, 'cat', '--format', 'yolo', '-o', place('set')])).toMatchObject({ code: 0, stderr: '' })
  expect((await filesIn('set')).filter((name) => name.endsWith('1.txt'))).toEqual([
    'labels/a/1.txt',
    'labels/b/1.txt',
    'labels/b/deep/1.txt',
  ])
  const beside = await tree('beside')
  expect(await detect([...beside, 'cat', '--format', 'yolo', '-o', place('beside')])).toMatchObject({ code: 0 })
  expect(await filesIn('beside')).toContain('b/deep/1.txt')
  expect(await readFile(place('beside/train.txt'), 'utf8')).toMatch(/^\.\/a\/1\.png\n/)
  const elsewhere = (folder: string) => detect([...files, 'cat', '--format', 'yolo', '-o', place(folder)])
  expect((await elsewhere('set/images')).stderr).toMatch(
    /a folder 'labels' takes the place of 'images': write into \S+set instead/,
  )
  const nested = await tree('roboflow/train/images')
  const run = await detect([
    nested[0]!,
    await picture('roboflow/1.png', 9, 9),
    'cat',
    '--format',
    'yolo',
    '-o',
    place('out/'),
  ])
  expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(/write into \S+roboflow instead\n$/) })
})

test.each([
  ['a folder that ends with a dot', 'dots./1.png'],
  ['a line break', 'dots/a\u2028b.png'],
])('YOLO: a picture that Ultralytics would not find is named: %s', async (_, name) => {
  await mkdir(place(`listed/${dirname(name)}`), { recursive: true })
  const pictures = [await picture(`listed/${name}`, 9, 9), await picture('listed/2.png', 9, 9)]
  const run = await detect([...pictures, 'cat', '--format', 'yolo', '-o', place('unlisted/')])
  expect(run).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^lookout: --format yolo: .*listed/) })
})

test('YOLO: a path may have a tab', async () => {
  await mkdir(place('tabs'))
  const words = [await picture('tabs/a\tb.png', 9, 9), 'cat', '--format', 'yolo', '-o', place('tabbed/')]
  expect(await detect(words)).toMatchObject({ code: 0 })
})

test('YOLO and LabelMe: two pictures that differ in their ending alone are named', async () => {
  const [first, second] = [await picture('same.png', 9, 9), await picture('same.jpg', 9, 9)]
  for (const [format, file] of [
    ['yolo', 'labels/same.txt'],
    ['labelme', 'same.json'],
  ] as const) {
    expect(await detect([first, second, 'cat', '--format', format, '-o', place('same/')])).toEqual({
      code: 1,
      stdout: '',
      stderr: `lookout: --format ${format}: ${first} and ${second} would both have their labels in ${file}\n`,
    })
  }
})

test('says how likely each object is to be right, in every output that has room for it', async () => {
  const file = await picture('sure.png', 200, 100)
  const rated = [file, 'cat', '--confidence']
  expect((await detect(rated)).stdout).toMatch(/BOTTOM +CONFIDENCE\n.+ 80 +0\.333\n$/)
  expect((await detect([...rated, '--points', '--format', 'csv'])).stdout).toMatch(
    /^file,label,x,y,confidence\r\n.+,0\.333\r\n$/,
  )
  expect(JSON.parse((await detect([...rated, '--json'])).stdout)).toMatchObject([
    {
      detections: [{ mention: 'cat', confidence: expect.closeTo(1 / 3, 6) }],
      categories: [{ mention: 'cat', complete: expect.any(Number) }],
      confidence: { calibrated: false },
    },
  ])
  const coco = JSON.parse((await detect([...rated, '--format', 'coco'])).stdout)
  expect(coco.annotations).toMatchObject([{ score: expect.closeTo(1 / 3, 6) }])
  for (const [folder, args] of [
    ['yolo-plain', []],
    ['yolo-rated', ['--confidence']],
  ] as const) {
    expect(await detect([file, 'cat', '--format', 'yolo', '-o', place(folder), ...args])).toMatchObject({ code: 0 })
  }
  const labels = (folder: string) => readFile(join(place(folder), 'labels', 'sure.txt'), 'utf8')
  expect(await labels('yolo-rated')).toBe(await labels('yolo-plain'))

  expect((await detect([file, 'cat', '--min-confidence', '0.4'])).stderr).toMatch(
    /^nothing was found\nconfidence is not calibrated for this model.*\n$/,
  )
  expect((await detect([file, 'cat', '--min-confidence', '0.3', '--json'])).stdout).toContain('"confidence":0.333')
  expect(await detect([file, 'cat', '--min-confidence', '2'])).toMatchObject({
    code: 1,
    stderr: "lookout: --min-confidence: expected a number from 0 to 1, not '2'\n",
  })
})

test('CSV: quoted where it must be, with a row for a picture in which nothing was found', async () => {
  const file = await picture('one, two.png', 200, 100)
  const csv = await detectByProgram([file, '-', 'big, cat', '--format', 'csv'], await readFile(file))
  const boxes = '20,20,100,80\r\n'
  expect(csv).toMatchObject({
    code: 0,
    stdout: `file,label,left,top,right,bottom\r\n"${file}",cat,${boxes}standard input,cat,${boxes}`,
  })
  expect((await detect([file, 'dog', '--format', 'csv'])).stdout).toBe(
    `file,label,left,top,right,bottom\r\n"${file}",,,,,\r\n`,
  )
  expect((await detect([file, 'dog', '--points', '--format', 'csv'])).stdout).toBe(`file,label,x,y\r\n"${file}",,,\r\n`)
  expect(await detect([file, 'dog'])).toMatchObject({
    stdout: expect.not.stringContaining('one'),
    stderr: 'nothing was found\n',
  })
})

test('LabelMe: a file for each picture, which leads to the picture', async () => {
  const files = await tree('bench')
  expect(await detect([...files, 'dog,cat', '--format', 'labelme', '-o', place('shapes/')])).toMatchObject({ code: 0 })
  expect(await filesIn('shapes')).toEqual(['a/1.json', 'b/1.json', 'b/deep/1.json'])
  expect(JSON.parse(await readFile(place('shapes/b/deep/1.json'), 'utf8'))).toMatchObject({
    imagePath: '../../../bench/b/deep/1.jpg',
    imageWidth: 200,
    imageHeight: 100,
    // biome-ignore format: corners
    shapes: [{ label: 'cat', shape_type: 'rectangle', points: [[20, 20], [100, 80]] }],
  })
})

test('a damaged picture in a folder leaves the others their results', async () => {
  await mkdir(place('mixed'))
  await picture('mixed/a.png', 100, 100)
  await writeFile(place('mixed/b.png'), (await readFile(place('mixed/a.png'))).subarray(0, 60))
  await picture('mixed/c.png', 100, 100)
  const run = await detectByProgram([place('mixed'), 'cat', '--format', 'csv'])
  expect(run.code).toBe(1)
  expect(run.stdout.match(/cat/g)).toHaveLength(2)
  expect(run.stderr).toMatch(
    /^lookout: \S+b\.png[^\n]* damaged[^\n]*\nlookout: 1 of 3 pictures could not be searched\n$/,
  )
})

test('a file whose name is not UTF-8 is said to have such a name', async () => {
  const named = await detectByProgram(['caf\ufffd.png', 'cat'])
  expect(named.stderr).toBe("lookout: 'caf\ufffd.png' cannot be read: its name is not UTF-8\n")
  await mkdir(place('latin'))
  const good = await picture('latin/a.png', 60, 40)
  await copyFile(good, Buffer.concat([Buffer.from(place('latin/caf')), Buffer.from([0xe9]), Buffer.from('.png')]))
  const run = await detect([place('latin'), 'cat', '--json'])
  expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(/png cannot be read: its name is not UTF-8\n/) })
  expect(JSON.parse(run.stdout)).toHaveLength(1)
})

test('a picture that the server fails at costs no other its results, nor does an error that is about all', async () => {
  await mkdir(place('faults'))
  const names = ['1.png', '2.png', '3.png', '4.png', '5.png', '6.png', '7.png']
  for (const name of names) await picture(`faults/${name}`, 60, 40)
  const { script } = server.engine
  onTestFinished(() => {
    server.engine.script = script
  })
  const failing = (errorAt: (asked: number) => Error | undefined) => {
    let asked = 0
    server.engine.script = { ...script, refusal: () => errorAt(++asked) }
    return detect([place('faults'), 'cat', '--json'])
  }
  const filesIn = ({ stdout }: Outcome) => JSON.parse(stdout).map(({ file }: { file: string }) => file)
  const broken = internalError(new Error('broken'))
  const second = await failing((asked) => (asked === 2 ? broken : undefined))
  expect(second).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/2\.png: Internal error\nlookout: 1 of 7 pictures could not be searched\n$/),
  })
  expect(filesIn(second)).toEqual(names.filter((name) => name !== '2.png').map((name) => place(`faults/${name}`)))
  const most = await failing((asked) => (asked > 1 ? broken : undefined))
  expect(most).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/5\.png: Internal error\nlookout: \S+6\.png: Internal error \(1 of 7 are done\)\n$/),
  })
  expect(filesIn(most)).toEqual([place('faults/1.png')])
  const gone = await failing((asked) => (asked > 2 ? invalidRequest('Gone', 'model') : undefined))
  expect(gone).toMatchObject({ code: 1, stderr: `lookout: ${place('faults/3.png')}: Gone (2 of 7 are done)\n` })
  expect(filesIn(gone)).toHaveLength(2)
  const never = await failing(() => invalidRequest('Gone', 'model'))
  expect(never).toEqual({ code: 1, stdout: '', stderr: 'lookout: Gone\n' })
})

test.each([
  [['missing.png', 'cat'], /^there is no file 'missing\.png'/],
  [['package.json', 'cat'], /^package\.json is of an unknown type: expected a picture/],
  [
    ['docs/pictures/shapes.png', 'cat', '-m', 'gpt'],
    /^unknown model 'gpt'; the models are service-mk1\.5, service-mk1$/,
  ],
  [['docs/pictures/shapes.png', '--format', 'yolo'], /^--format yolo writes one file for each picture: add a folder/],
  [['docs/pictures', 'cat', '-o', 'out.png'], /^-o out\.png: several pictures need a folder/],
  [['docs/pictures/shapes.png', '-o', 'package.json/out.png'], /^-o package\.json\/out\.png: .+ is not a folder/],
  [
    ['docs/pictures/shapes.png', '-o', 'docs/pictures/shapes.png'],
    /^-o: docs\/pictures\/shapes\.png is a picture that is/,
  ],
])('refuses %j in one line', async (args, message) => {
  const { code, stdout, stderr } = await detect(args)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^lookout: [^\n]+\n$/)
  expect(stderr.slice('lookout: '.length, -1)).toMatch(message)
})

describe('--tracks', () => {
  const SIZE = { width: 200, height: 100 }
  let video: string
  beforeAll(async () => {
    const grey = { ...SIZE, data: Buffer.alloc(SIZE.width * SIZE.height * 3, 128) }
    video = place('walk.mp4')
    await writeFile(video, await makeVideo({ format: 'mp4', frames: Array.from({ length: 11 }, () => grey) }))
  })

  test('writes the tracks of a video in every format', async () => {
    const rows = ['0,1,cat,20,20,100,80', '0.5,1,cat,20,20,100,80']
    const csv = await detect([video, 'cat,dog', '--tracks', '--format', 'csv'])
    expect(csv).toEqual({
      code: 0,
      stderr: '',
      stdout: ['seconds,track,label,left,top,right,bottom', ...rows, ''].join('\r\n'),
    })
    const json = await detect([video, 'cat', '--tracks', '--json', '--patience', '1'])
    expect(JSON.parse(json.stdout)).toMatchObject({
      file: video,
      ...SIZE,
      timestamps: [0, 0.5],
      finish_reason: 'complete',
    })
    expect((await detect([video, 'cat', '--tracks', '-o', place('walk.txt'), '--fps', '10'])).code).toBe(0)
    expect(await readFile(place('walk.txt'), 'utf8')).toBe('1,1,20,20,80,60,-1,-1,-1,-1\n6,1,20,20,80,60,-1,-1,-1,-1\n')
    const grey = { ...SIZE, data: Buffer.alloc(SIZE.width * SIZE.height * 3, 128) }
    const times = Array.from({ length: 8 }, (_, index) => 500 + index * 300)
    const late = { format: 'mp4', frames: times.map(() => grey), times, audioSeconds: 3 } as const
    await writeFile(place('late.mp4'), await makeVideo(late))
    const { stdout: mot } = await detect([place('late.mp4'), 'cat', '--tracks', '--format', 'mot', '--fps', '3.33'])
    expect(mot.match(/^\d+/gm)).toEqual(['1', '2', '3', '5', '6'])
    expect((await detect([video, 'cat', '--tracks', '--format', 'cvat', '-o', place('walk.xml')])).code).toBe(0)
    // Over the file that is there.
    expect((await detect([video, 'cat', '--tracks', '-o', place('walk.xml')])).code).toBe(0)
    const cvat = await readFile(place('walk.xml'), 'utf8')
    expect(cvat).toContain('<box frame="1" outside="0"')
    expect(cvat).toContain(
      '<label><name>cat</name></label></labels><original_size><width>200</width><height>100</height>',
    )
    expect((await detect([video, 'cat', '--tracks'])).stdout).toMatch(/^SECONDS +TRACK +LABEL .*\n0 +1 +cat +20/)
    expect(await detect([video, 'dog', '--tracks'])).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/nothing/),
    })
  })

  test.each<[string, () => Promise<string[]> | string[], RegExp]>([
    ['a picture', async () => [await picture('still.png', 10, 10), 'cat', '--tracks'], /not a video/],
    ['no video', () => ['cat', '--tracks'], /expected one video/],
    ['two videos', () => [video, video, '--tracks'], /expected one video/],
    ['another ending', () => [video, '--tracks', '-o', place('walk.png')], /\.json, \.csv, \.txt or \.xml/],
    [
      'an ending of another format',
      () => [video, '--tracks', '--format', 'mot', '-o', place('walk.xml')],
      /expected a file/,
    ],
    ['a format of pictures', () => [video, '--tracks', '--format', 'coco'], /--format/],
    ['two outputs', () => [video, '--tracks', '-o', place('a.txt'), '-o', place('a.xml')], /one file/],
    ['points', () => [video, '--tracks', '--points'], /--points/],
    ['tiles', () => [video, '--tracks', '--tiles', 'auto'], /--tiles/],
    ['patience without tracks', () => [video, '--patience', '1'], /needs --tracks/],
  ])('%s is refused', async (_, args, message) => {
    expect(await detect(await args())).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(message) })
  })
})
