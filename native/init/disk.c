/* disk: says once that the writable root is full, and again before each EXIT while it is, so that a failure has its reason. */
#include "stream.h"
#include "out.h"

#include <sys/statvfs.h>

enum { FULL_BELOW_BYTES = 4096 };

/* A read-only root has no room by design; a filesystem that counts no inodes has no end of them. */
static bool is_full(const struct statvfs *disk)
{
	if ((disk->f_flag & ST_RDONLY) != 0) return false;
	if ((uint64_t)disk->f_bavail * disk->f_frsize < FULL_BELOW_BYTES) return true;
	return disk->f_files > 0 && disk->f_favail == 0;
}

void disk_check(bool repeat)
{
	static bool was_full;
	struct statvfs disk;
	if (statvfs("/", &disk) != 0) return;
	const bool full = is_full(&disk);
	const bool tell = full && (repeat || !was_full);
	was_full = full;
	if (!tell) return;
	uint8_t payload[32];
	uint8_t *at = put_u64(payload, (uint64_t)disk.f_bavail * disk.f_frsize);
	at = put_u64(at, (uint64_t)disk.f_blocks * disk.f_frsize);
	at = put_u64(at, disk.f_favail);
	put_u64(at, disk.f_files);
	out_frame(DISK, 0, payload, sizeof payload);
}
