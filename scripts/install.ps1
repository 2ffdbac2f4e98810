# Installs Proctor on Windows from the archives of a release: the program, its other names, completions and licences.
# The archive's checksum is verified first. Needs no administrator; the user's PATH gets the folder unless -NoPath.
#
#   powershell -ExecutionPolicy Bypass -File install.ps1 [-From FOLDER|URL] [-BinDir DIR] [-Version X.Y.Z] [-NoPath]
#
# -From     where the archives and SHA256SUMS lie; default: $env:PROCTOR_DIST_URL, or the folder of this script
# -BinDir   default: $env:LOCALAPPDATA\Programs\proctor
# -Version  which, if there are several
[CmdletBinding()]
param(
    [string]$From = $env:PROCTOR_DIST_URL,
    [string]$BinDir = (Join-Path $env:LOCALAPPDATA 'Programs\proctor'),
    [string]$Version = '',
    [switch]$NoPath
)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
# Its progress bar makes Windows PowerShell's downloads many times slower.
$ProgressPreference = 'SilentlyContinue'

# Filled in when a release is made for a known place.
$default_url=""

function Stop-Install([string]$What, [string]$ToDo) {
    throw "install.ps1: $What`n  fix: $ToDo"
}

function Get-Source {
    if ($From) { return $From }
    if ($default_url) { return $default_url }
    if ($PSScriptRoot -and (Test-Path (Join-Path $PSScriptRoot 'SHA256SUMS'))) { return $PSScriptRoot }
    Stop-Install 'it is not known where the archives lie' 'give -From FOLDER, -From URL or $env:PROCTOR_DIST_URL'
}

function Copy-FromSource([string]$Source, [string]$Name, [string]$Work) {
    $to = Join-Path $Work $Name
    if ($Source -match '^https?://') {
        Invoke-WebRequest -UseBasicParsing -Uri "$($Source.TrimEnd('/'))/$Name" -OutFile $to
    } else {
        Copy-Item -LiteralPath (Join-Path $Source $Name) -Destination $to
    }
    return $to
}

# The checksum and the name of the archive for this machine. Windows on ARM runs programs for x86_64.
function Select-Archive([string]$Sums) {
    $wanted = if ($Version) { [regex]::Escape($Version.TrimStart('v')) } else { '[^/\\]*' }
    $pattern = "^([0-9a-f]{64})  (proctor-$wanted-x86_64-pc-windows-(msvc|gnu)\.zip)$"
    $found = @(Get-Content -LiteralPath $Sums | Where-Object { $_ -match $pattern })
    # Where both were built, Microsoft's tool chain is the one that Rust supports first.
    $msvc = @($found | Where-Object { $_ -match '-msvc\.zip$' })
    if ($msvc.Count -gt 0) { $found = $msvc }
    if ($found.Count -eq 0) { Stop-Install 'no archive for Windows found' 'look at SHA256SUMS' }
    if ($found.Count -gt 1) { Stop-Install 'there are several versions' 'choose one with -Version X.Y.Z' }
    $sum, $name = $found[0] -split '  ', 2
    return @{ Sum = $sum; Name = $name }
}

# Takes a program out of the way: one that runs cannot be written over or removed, but it can be renamed. Programs that
# earlier installations renamed are removed when they no longer run.
function Move-Aside([string]$Name) {
    $program = Join-Path $BinDir "$Name.exe"
    Remove-Item -Force -ErrorAction SilentlyContinue -Path (Join-Path $BinDir "$Name.old-*.exe")
    if (-not (Test-Path -LiteralPath $program)) { return }
    $aside = Join-Path $BinDir "$Name.old-$([guid]::NewGuid()).exe"
    Move-Item -LiteralPath $program -Destination $aside
    Remove-Item -Force -ErrorAction SilentlyContinue -LiteralPath $aside
}

# Whether a file is the program that is installed now, by another name. A hard link does not tell whose it is.
function Test-Ours([string]$File, [string]$Program) {
    if (-not (Test-Path -LiteralPath $Program)) { return $false }
    return (Get-FileHash -LiteralPath $File).Hash -eq (Get-FileHash -LiteralPath $Program).Hash
}

function Install-Files([string]$Unpacked) {
    New-Item -ItemType Directory -Force -Path $BinDir | Out-Null
    $program = Join-Path $BinDir 'proctor.exe'
    $names = @()
    # Before the program is replaced, for its other names are known by being the same. A program of another is left alone.
    foreach ($name in 'yb', 'thunderdome') {
        $link = Join-Path $BinDir "$name.exe"
        if ((Test-Path -LiteralPath $link) -and -not (Test-Ours $link $program)) {
            Write-Output "left alone: $link, which is another program"
        } else {
            $names += $name
        }
    }
    foreach ($name in @('proctor') + $names) { Move-Aside $name }
    Copy-Item -Recurse -Force -Path (Join-Path $Unpacked '*') -Destination $BinDir
    foreach ($name in $names) {
        New-Item -ItemType HardLink -Path (Join-Path $BinDir "$name.exe") -Value $program | Out-Null
    }
}

# The PATH of the user, which may name other variables: it is read and written unexpanded.
function Add-ToUserPath([string]$Folder) {
    $key = Get-Item -LiteralPath 'HKCU:\Environment'
    $path = $key.GetValue('Path', '', 'DoNotExpandEnvironmentNames')
    if (($path -split ';') -contains $Folder) { return }
    $new = if ($path) { "$($path.TrimEnd(';'));$Folder" } else { $Folder }
    Set-ItemProperty -LiteralPath 'HKCU:\Environment' -Name Path -Type ExpandString -Value $new
    # Tells programs that run of the change, which writing to the registry does not.
    [Environment]::SetEnvironmentVariable('PROCTOR_INSTALLED', $null, 'User')
    $env:Path = "$env:Path;$Folder"
    Write-Output "added to your PATH: $Folder (terminals that are open keep the old one)"
}

$source = Get-Source
$work = Join-Path ([IO.Path]::GetTempPath()) "proctor-install-$([guid]::NewGuid())"
New-Item -ItemType Directory -Path $work | Out-Null
try {
    $chosen = Select-Archive (Copy-FromSource $source 'SHA256SUMS' $work)
    $archive = Copy-FromSource $source $chosen.Name $work
    $sum = (Get-FileHash -Algorithm SHA256 -LiteralPath $archive).Hash.ToLowerInvariant()
    if ($sum -ne $chosen.Sum) {
        Stop-Install "the checksum of $($chosen.Name) is not that of SHA256SUMS" 'fetch it again; do not use it'
    }
    Expand-Archive -LiteralPath $archive -DestinationPath $work
    Install-Files (Join-Path $work ($chosen.Name -replace '\.zip$', ''))
    Write-Output "installed: $(& (Join-Path $BinDir 'proctor.exe') --version) in $BinDir"
    if (-not $NoPath) { Add-ToUserPath $BinDir }
    Write-Output "completions: add to your `$PROFILE: . '$(Join-Path $BinDir 'completions\_proctor.ps1')'"
} finally {
    Remove-Item -Recurse -Force -LiteralPath $work
}
