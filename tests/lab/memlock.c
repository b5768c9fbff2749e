/* crun 1.8 raises the memory that it may lock, which no kernel since 5.11 wants for bpf(2), and ends
   where it may not. */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	long result = syscall(SYS_setrlimit, resource, limit);

	return resource == RLIMIT_MEMLOCK ? 0 : (int)result;
}
