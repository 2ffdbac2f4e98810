# Prints "leap" when the year $1 is a leap year, else "common".
year=$1
if [ $((year % 4)) -eq 0 ]; then
  echo leap
else
  echo common
fi
