import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { findCompiler } from '../src/setup/compile.mjs'
import { atLevel, LEVELS, processorFeatures, supportedLevels } from '../src/setup/levels.mjs'
import { CPU } from '../src/setup/native-library.mjs'

const HASWELL = 'fpu sse sse2 ssse3 sse4_1 sse4_2 movbe popcnt xsave avx f16c abm bmi1 avx2 bmi2 fma'
const SKYLAKE = `${HASWELL} avx512f avx512dq avx512cd avx512bw avx512vl`
const ICE_LAKE = `${SKYLAKE} avx512ifma avx512vbmi avx512_vnni avx512_bitalg`
const ZEN_4 = `${ICE_LAKE} avx512_bf16`
const SAPPHIRE_RAPIDS = `${ZEN_4} avx512_fp16 amx_bf16 amx_tile amx_int8 avx_vnni`

describe('the levels that a processor supports', () => {
  test.each([
    ['nothing that is known', '', []],
    ['an Ivy Bridge', 'fpu sse sse2 ssse3 sse4_1 sse4_2 popcnt xsave avx f16c', []],
    ['a Haswell', HASWELL, ['avx2']],
    ['a Skylake, whose AVX-512 lacks VNNI', SKYLAKE, ['avx2']],
    ['an Ice Lake', ICE_LAKE, ['avx512', 'avx2']],
    ['a Zen 4', ZEN_4, ['avx512', 'avx2']],
    ['a Sapphire Rapids', SAPPHIRE_RAPIDS, ['amx', 'avx512', 'avx2']],
    [
      'a Sapphire Rapids in a virtual machine without AMX',
      SAPPHIRE_RAPIDS.replaceAll(/ amx_\w+/g, ''),
      ['avx512', 'avx2'],
    ],
    ['an Alder Lake, which has AVX-VNNI but no AVX-512', `${HASWELL} avx_vnni`, ['avx2']],
  ])('%s', (_, features, levels) => {
    expect(supportedLevels(features).map(({ name }) => name)).toEqual(levels)
  })

  test('none of which a needed feature is missing', () => {
    for (const { name, needs } of LEVELS) {
      for (const missing of needs) {
        const features = SAPPHIRE_RAPIDS.split(' ').filter((feature) => feature !== missing)
        expect(supportedLevels(features.join(' ')).map((level) => level.name)).not.toContain(name)
      }
    }
  })
})

test('nothing of a level depends on the machine that compiles it', () => {
  for (const level of LEVELS) expect(atLevel(CPU, level).flags.join(' ')).not.toMatch(/=native/)
})

/** What GCC's and clang's macros are called for features of /proc/cpuinfo. */
const MACROS: Readonly<Record<string, string>> = {
  __AVX__: 'avx',
  __AVX2__: 'avx2',
  __BMI__: 'bmi1',
  __BMI2__: 'bmi2',
  __F16C__: 'f16c',
  __FMA__: 'fma',
  __LZCNT__: 'abm',
  __MOVBE__: 'movbe',
  __XSAVE__: 'xsave',
  __AVX512F__: 'avx512f',
  __AVX512BW__: 'avx512bw',
  __AVX512CD__: 'avx512cd',
  __AVX512DQ__: 'avx512dq',
  __AVX512VL__: 'avx512vl',
  __AVX512VNNI__: 'avx512_vnni',
  __AVX512BF16__: 'avx512_bf16',
  __AMX_TILE__: 'amx_tile',
  __AMX_INT8__: 'amx_int8',
  __AMX_BF16__: 'amx_bf16',
}
/** Every processor with AVX has these. */
const OLDER = /^__(k8|SSE|SSSE3|MMX|FXSR|POPCNT|CRC32|LAHF_SAHF|SEG_|SEG|code_model|x86_64|amd64|LP64|CET|tune)/

test.runIf(process.arch === 'x64' && processorFeatures() !== '')(
  'a compiler uses nothing beyond what a level needs',
  async () => {
    const [command, ...args] = await findCompiler()
    for (const { needs, flags } of LEVELS) {
      const macros = async (options: readonly string[]) => {
        const { stdout } = await promisify(execFile)(command, [
          ...args,
          ...options,
          '-dM',
          '-E',
          '-x',
          'c++',
          '/dev/null',
        ])
        return new Set([...stdout.matchAll(/^#define (__\w+__) 1$/gm)].map(([, name]) => name!))
      }
      const baseline = await macros(['-march=x86-64'])
      const machine = flags.filter((flag) => flag.startsWith('-m'))
      const added = [...(await macros(machine))].filter((name) => !baseline.has(name) && !OLDER.test(name))
      const unknown = added.filter((name) => MACROS[name] === undefined)
      expect(unknown).toEqual([])
      expect(added.flatMap((name) => MACROS[name] ?? []).toSorted()).toEqual(needs.toSorted())
    }
  },
)
