/* git.exe and sh.exe for tests under Wine, and for nothing else: hands its arguments, working
 * directory, environment and input to bridge.py, which runs the program of the same name outside
 * Wine, and gives back what that wrote and its exit code. Where the server listens, and the word that
 * it wants to hear, stand in the file `bridge.address` beside this program. */
#include <winsock2.h>
#include <windows.h>
#include <shellapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef char *(CDECL *unix_name)(LPCWSTR);

static SOCKET server;

static void fail(const char *what) {
    fprintf(stderr, "bridge: %s (error %lu)\n", what, GetLastError());
    ExitProcess(127);
}

static void send_all(const char *bytes, int length) {
    while (length > 0) {
        int sent = send(server, bytes, length, 0);
        if (sent <= 0)
            ExitProcess(127);
        bytes += sent;
        length -= sent;
    }
}

static int receive_all(char *bytes, int length) {
    while (length > 0) {
        int got = recv(server, bytes, length, 0);
        if (got <= 0)
            return 0;
        bytes += got;
        length -= got;
    }
    return 1;
}

/* One frame: what it is, how long, and the bytes. */
static void send_frame(char kind, const char *bytes, int length) {
    unsigned size = (unsigned)length;
    char head[5] = {kind, (char)size, (char)(size >> 8), (char)(size >> 16), (char)(size >> 24)};
    send_all(head, 5);
    send_all(bytes, length);
}

static void send_wide(char kind, const wchar_t *text) {
    int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *bytes = malloc(length);
    WideCharToMultiByte(CP_UTF8, 0, text, -1, bytes, length, NULL, NULL);
    send_frame(kind, bytes, length - 1);
    free(bytes);
}

static DWORD WINAPI pass_input(LPVOID input) {
    static char buffer[65536];
    DWORD got = 0;
    while (input && ReadFile(input, buffer, sizeof buffer, &got, NULL) && got > 0)
        send_frame('i', buffer, (int)got);
    send_frame('I', "", 0);
    return 0;
}

static void connect_to_server(const wchar_t *self) {
    wchar_t path[32768];
    char line[256] = "";
    int port;
    char word[128];
    wcscpy(path, self);
    wcscpy(wcsrchr(path, L'\\') + 1, L"bridge.address");
    FILE *file = _wfopen(path, L"rb");
    if (!file || !fgets(line, sizeof line, file) || sscanf(line, "%d %127s", &port, word) != 2)
        fail("no bridge.address beside the program: is the server running?");
    fclose(file);
    WSADATA data;
    WSAStartup(MAKEWORD(2, 2), &data);
    server = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {0};
    address.sin_family = AF_INET;
    address.sin_port = htons((u_short)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(server, (struct sockaddr *)&address, sizeof address) != 0)
        fail("nobody listens at the address in bridge.address");
    send_frame('w', word, (int)strlen(word));
}

static void send_request(const wchar_t *self) {
    wchar_t cwd[32768];
    int count;
    wchar_t **args = CommandLineToArgvW(GetCommandLineW(), &count);
    send_wide('p', wcsrchr(self, L'\\') + 1);
    for (int i = 1; i < count; i++)
        send_wide('a', args[i]);
    GetCurrentDirectoryW(32768, cwd);
    send_wide('d', cwd);
    for (wchar_t *pair = GetEnvironmentStringsW(); *pair; pair += wcslen(pair) + 1)
        send_wide('e', pair);
    unix_name name = (unix_name)(void *)GetProcAddress(GetModuleHandleW(L"kernel32"), "wine_get_unix_file_name");
    char *c_drive = name ? name(L"C:\\") : NULL;
    if (!c_drive)
        fail("this is not Wine");
    send_frame('c', c_drive, (int)strlen(c_drive));
    send_frame('g', "", 0);
}

static void write_out(HANDLE to, const char *bytes, DWORD length) {
    DWORD written;
    while (length > 0 && WriteFile(to, bytes, length, &written, NULL) && written > 0) {
        bytes += written;
        length -= written;
    }
}

int main(void) {
    static char buffer[65536];
    static wchar_t self[32768];
    unsigned char head[5];
    GetModuleFileNameW(NULL, self, 32768);
    connect_to_server(self);
    send_request(self);
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE);
    CreateThread(NULL, 0, pass_input, input == INVALID_HANDLE_VALUE ? NULL : input, 0, NULL);
    while (receive_all((char *)head, 5)) {
        unsigned length = head[1] | head[2] << 8 | head[3] << 16 | (unsigned)head[4] << 24;
        if (length > sizeof buffer || !receive_all(buffer, (int)length))
            break;
        if (head[0] == 'o')
            write_out(GetStdHandle(STD_OUTPUT_HANDLE), buffer, length);
        else if (head[0] == 'e')
            write_out(GetStdHandle(STD_ERROR_HANDLE), buffer, length);
        else if (head[0] == 'x')
            ExitProcess((UINT)(unsigned char)buffer[0]);
    }
    fail("the server hung up");
    return 127;
}
