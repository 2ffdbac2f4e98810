# Prints "leap" if the year $1 is a leap year, else "common".
if [ $(($1 % 4)) -eq 0 ] && [ $(($1 % 100)) -ne 0 ]; then
  echo leap
else
  echo common
fi
