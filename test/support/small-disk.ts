import { execFileSync } from 'node:child_process'
import { statfsSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

/** Mounts a small disk in memory. @returns its folder; null where that is not possible: it requires root on Linux. */
export async function mountSmallDisk(options = 'size=80m'): Promise<string | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
  const directory = await mkdtemp(join(tmpdir(), 'lookout-small-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory], { stdio: 'ignore' })
    return directory
  } catch {
    await rm(directory, { recursive: true })
    return null
  }
}

export async function unmount(directory: string): Promise<void> {
  execFileSync('umount', [directory])
  await rm(directory, { recursive: true, force: true })
}

/** Fills the disk to the last byte. */
export async function fill(path: string): Promise<void> {
  const { bavail, bsize } = statfsSync(join(path, '..'))
  await writeFile(path, Buffer.alloc(bavail * bsize)).catch((error: NodeJS.ErrnoException) => {
    // The server writes at the same time.
    if (error.code !== 'ENOSPC') throw error
  })
}

/** A file system with a journal on a medium that is a file. */
export class ImageDisk {
  readonly directory: string
  readonly #image: string

  private constructor(directory: string, image: string) {
    this.directory = directory
    this.#image = image
  }

  /** Mounts a new disk; null where that is not possible: it requires root on Linux, and loop devices. */
  static async mount(): Promise<ImageDisk | null> {
    if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
    const directory = await mkdtemp(join(tmpdir(), 'lookout-image-'))
    const image = `${directory}.img`
    try {
      run('truncate', '--size=250M', image)
      run('mkfs.ext4', '-q', '-F', image)
      return ImageDisk.#open(directory, image)
    } catch {
      await remove(directory, image)
      return null
    }
  }

  static #open(directory: string, image: string): ImageDisk {
    // What is not synced stays in memory.
    run('mount', '-o', 'loop,errors=remount-ro,commit=600', image, directory)
    return new ImageDisk(directory, image)
  }

  /** What a loss of power would leave, as another disk. */
  async withoutPower(): Promise<ImageDisk> {
    const directory = await mkdtemp(join(tmpdir(), 'lookout-image-'))
    run('cp', '--sparse=always', this.#image, `${directory}.img`)
    return ImageDisk.#open(directory, `${directory}.img`)
  }

  /** It has an error, upon which the system makes it read-only. */
  fail(): void {
    const device = execFileSync('findmnt', ['-no', 'SOURCE', this.directory], { encoding: 'utf8' })
    writeFileSync(`/sys/fs/ext4/${basename(device.trim())}/trigger_fs_error`, '1')
  }

  async unmount(): Promise<void> {
    run('umount', '--lazy', this.directory)
    await remove(this.directory, this.#image)
  }
}

const run = (program: string, ...args: readonly string[]) => execFileSync(program, args, { stdio: 'ignore' })

async function remove(...paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { recursive: true, force: true })
}
