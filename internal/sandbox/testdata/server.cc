// The calls that a gRPC server in C++ makes: threads, locks, epoll, sockets, random numbers,
// files, memory, exceptions and a child. It prints "served" where all of them are answered.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>
#include <fcntl.h>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <locale>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <ctime>
extern char **environ;
static void must(bool ok, const char *what) { if (!ok) { perror(what); exit(1); } }
int main(int argc, char **argv) {
  std::string dir = getenv("PLUGIN_UNIX_SOCKET_DIR") ? getenv("PLUGIN_UNIX_SOCKET_DIR") : "/tmp";
  std::string path = dir + "/s";
  signal(SIGPIPE, SIG_IGN);
  struct sigaction sa{}; sa.sa_handler = [](int) {}; sigaction(SIGTERM, &sa, nullptr);
  sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1); pthread_sigmask(SIG_BLOCK, &set, nullptr);
  utsname u; uname(&u); struct sysinfo si; sysinfo(&si); rusage ru; getrusage(RUSAGE_SELF, &ru);
  rlimit rl; getrlimit(RLIMIT_NOFILE, &rl); getrlimit(RLIMIT_STACK, &rl);
  std::thread::hardware_concurrency(); sysconf(_SC_NPROCESSORS_ONLN); sysconf(_SC_PHYS_PAGES);
  std::random_device rd; unsigned r = rd(); char rb[16]; must(getrandom(rb, 16, 0) == 16, "getrandom");
  time_t now = time(nullptr); tm t; localtime_r(&now, &t); gmtime_r(&now, &t);
  try { std::locale::global(std::locale("")); } catch (...) {}
  int ls = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); must(ls >= 0, "socket");
  fcntl(ls, F_SETFL, fcntl(ls, F_GETFL) | O_NONBLOCK); fcntl(ls, F_SETFD, fcntl(ls, F_GETFD) | FD_CLOEXEC);
  unlink(path.c_str());
  int one = 1; setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_un a{}; a.sun_family = AF_UNIX; strcpy(a.sun_path, path.c_str());
  must(bind(ls, (sockaddr *)&a, sizeof a) == 0, "bind"); must(listen(ls, 128) == 0, "listen");
  socklen_t sl = sizeof a; getsockname(ls, (sockaddr *)&a, &sl);
  int ep = epoll_create1(EPOLL_CLOEXEC); int ev = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); int tf = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  itimerspec its{}; its.it_value.tv_nsec = 1000000; timerfd_settime(tf, 0, &its, nullptr);
  for (int fd : {ls, ev, tf}) { epoll_event e{}; e.events = EPOLLIN | EPOLLET; e.data.fd = fd; must(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl"); }
  int pair[2]; must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
  int pp[2]; must(pipe2(pp, O_CLOEXEC) == 0, "pipe2");
  char msg[] = "hello"; iovec v{msg, 5}; msghdr mh{}; mh.msg_iov = &v; mh.msg_iovlen = 1;
  must(sendmsg(pair[0], &mh, MSG_NOSIGNAL) == 5, "sendmsg"); must(recvmsg(pair[1], &mh, 0) == 5, "recvmsg");
  must(send(pair[0], msg, 5, MSG_NOSIGNAL) == 5, "send"); must(recv(pair[1], msg, 5, 0) == 5, "recv");
  writev(pp[1], &v, 1); readv(pp[0], &v, 1);
  std::mutex m; std::condition_variable cv; std::shared_mutex sm; std::atomic<int> n{0};
  std::vector<std::thread> ts;
  for (int i = 0; i < 8; i++) ts.emplace_back([&, i] {
    pthread_setname_np(pthread_self(), "worker");
    std::vector<double> x(1 << 18); double s = 0; for (size_t j = 0; j < x.size(); j++) { x[j] = std::tanh(j * 1e-3 + i); s += x[j]; }
    { std::unique_lock l(m); cv.wait_for(l, std::chrono::milliseconds(2)); }
    std::unique_lock l(sm); n++; cv.notify_all(); std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    uint64_t o = 1; if (write(ev, &o, 8)) {}
    cpu_set_t cs; pthread_getaffinity_np(pthread_self(), sizeof cs, &cs); sched_getcpu();
  });
  auto fut = std::async(std::launch::async, [] { return std::exp(1.0); }); fut.get();
  epoll_event out[8]; epoll_wait(ep, out, 8, 10);
  for (auto &th : ts) th.join();
  pollfd pf{ev, POLLIN, 0}; poll(&pf, 1, 1); fd_set fs; FD_ZERO(&fs); FD_SET(ev, &fs); timeval tv{0, 1000}; select(ev + 1, &fs, nullptr, nullptr, &tv);
  try { throw std::runtime_error("x"); } catch (std::exception &e) {}
  std::ifstream f("/etc/hostname"); std::string line; std::getline(f, line);
  std::error_code ec; for (auto &e : std::filesystem::directory_iterator("/etc", ec)) if (e.is_regular_file(ec)) break;
  (void)std::filesystem::current_path(ec); (void)std::filesystem::exists("/etc/passwd", ec); (void)std::filesystem::read_symlink("/proc/self/exe", ec);
  void *p = mmap(nullptr, 1 << 22, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); mprotect(p, 4096, PROT_READ | PROT_WRITE); madvise(p, 4096, MADV_DONTNEED); p = mremap(p, 1 << 22, 1 << 21, 0); munmap(p, 1 << 21);
  void *big = malloc(64 << 20); memset(big, 1, 64 << 20); big = realloc(big, 128 << 20); free(big);
  pid_t c; char *av[] = {(char *)"true", nullptr}; must(posix_spawnp(&c, "true", nullptr, nullptr, av, environ) == 0, "posix_spawn"); int st; waitpid(c, &st, 0); must(st == 0, "true");
  if ((c = fork()) == 0) _exit(0); waitpid(c, &st, 0); must(st == 0, "fork");
  FILE *po = popen("echo hi", "r"); if (po) { char b[8]; if (fgets(b, 8, po)) {} pclose(po); }
  (void)r; std::cout << "served " << n << std::endl; shutdown(pair[0], SHUT_RDWR); close(pair[0]); unlink(path.c_str());
  return 0;
}
