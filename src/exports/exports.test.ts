import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { toCvat } from './cvat.ts'
import { labelMeName, toLabelMe } from './label-me.ts'
import { toMot } from './mot.ts'
import { toYolo, yoloName } from './yolo.ts'

/** COCO and CSV are tested through the command line that writes them, and what other tools read in test/labels.test.ts. */

const PICTURE = {
  name: 'album/cats.1.jpg',
  width: 200,
  height: 100,
  boxes: [{ label: 'cat', left: 20, top: 10, right: 120, bottom: 60 }],
  points: [{ label: 'nose', x: 50, y: 25 }],
}

test('LabelMe: corners in pixels, named as the picture', () => {
  expect(toLabelMe(PICTURE, '../cats.1.jpg')).toEqual({
    version: '5.5.0',
    flags: {},
    shapes: [
      {
        label: 'cat',
        points: [
          [20, 10],
          [120, 60],
        ],
        group_id: null,
        description: '',
        shape_type: 'rectangle',
        flags: {},
      },
      { label: 'nose', points: [[50, 25]], group_id: null, description: '', shape_type: 'point', flags: {} },
    ],
    imagePath: '../cats.1.jpg',
    imageData: null,
    imageHeight: 100,
    imageWidth: 200,
  })
  expect(labelMeName(PICTURE.name)).toBe('album/cats.1.json')
})

test.each([
  ['images/1.jpg', 'labels/1.txt'],
  ['images/a/images/b.c/1.tar.png', 'images/a/labels/b.c/1.tar.txt'],
  ['images.png', 'images.txt'],
  ['a.b/oldimages/1', 'a.b/oldimages/1.txt'],
])('YOLO: the labels of %s are in %s', (picture, labels) => {
  expect(yoloName(picture)).toBe(labels)
})

test('YOLO: names that are odd leave the files readable', () => {
  const label = 'a "cat":\n#1\u{85}\u{7f}é'
  const boxes = [{ label, left: 0, top: 0, right: 1, bottom: 1 }]
  const origin = { asked: [], model: null, version: null, date: new Date(0) }
  const files = toYolo([{ ...PICTURE, boxes }], origin)
  expect(parse(files.get('data.yaml')!)).toEqual({
    train: 'train.txt',
    val: 'train.txt',
    names: { 0: 'a "cat": #1 é' },
  })
  expect(files.get('classes.txt')).toBe('a "cat": #1 é\n')
  expect(parse(toYolo([], origin).get('data.yaml')!)).toMatchObject({ names: {} })
})

describe('tracks', () => {
  const box = { label: 'a "cat" & <dog>', left: 20, top: 10, right: 120, bottom: 60 }
  const clip = {
    frames: [0, 15, 30, 45],
    size: { width: 200, height: 100 },
    boxes: [
      { ...box, track: 2, frame: 15 },
      { ...box, track: 1, frame: 0 },
      { ...box, track: 1, frame: 30, left: 30 },
      { ...box, track: 1, frame: 15, right: 125 },
    ],
  }

  test('MOT: a line for each box, by frames from 1', () => {
    expect(toMot(clip)).toBe(
      [
        '1,1,20,10,100,50,-1,-1,-1,-1',
        '16,1,20,10,105,50,-1,-1,-1,-1',
        '16,2,20,10,100,50,-1,-1,-1,-1',
        '31,1,30,10,90,50,-1,-1,-1,-1',
        '',
      ].join('\n'),
    )
  })

  test('CVAT: a track ends in the first frame that does not show it', () => {
    const element = (frame: number, outside: number, left: number, right: number) =>
      `    <box frame="${frame}" outside="${outside}" occluded="0" keyframe="1" xtl="${left}" ytl="10" xbr="${right}" ybr="60" z_order="0"></box>`
    expect(toCvat(clip).split('\n')).toEqual([
      '<?xml version="1.0" encoding="utf-8"?>',
      '<annotations>',
      '  <version>1.1</version>',
      '  <meta><task><labels><label><name>a &quot;cat&quot; &amp; &lt;dog&gt;</name></label></labels><original_size><width>200</width><height>100</height></original_size></task></meta>',
      '  <track id="0" label="a &quot;cat&quot; &amp; &lt;dog&gt;">',
      ...[element(0, 0, 20, 120), element(15, 0, 20, 125), element(30, 0, 30, 120), element(45, 1, 30, 120)],
      '  </track>',
      '  <track id="1" label="a &quot;cat&quot; &amp; &lt;dog&gt;">',
      ...[element(15, 0, 20, 120), element(30, 1, 20, 120)],
      '  </track>',
      '</annotations>',
      '',
    ])
  })
})
